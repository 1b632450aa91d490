//! What is kept of an address, what an update changes, and what is refused.

use anyhow::Result;
use serde_json::{Value, json};

use super::{ADDRESSES, UNKNOWN, address, home};
use crate::support::{created, id, invalid, merchant, not_found, ok, with, without};

#[tokio::test]
async fn what_is_listed_is_kept_and_nothing_else() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let answer = merchant.api.post(ADDRESSES, home(&customer)).await?;
    let made = created(&answer);
    assert!(id(made)?.starts_with("adr_"));
    let plain = without(without(made.clone(), "id"), "createdAt");
    let expected = json!({
        "object": "address", "livemode": false, "customerId": customer, "line1": "1 Main St", "country": "US",
        "isDefaultBilling": false, "isDefaultShipping": false,
    });
    assert_eq!(plain, expected, "the first address is the default for nothing");

    let full = json!({
        "customerId": customer, "firstName": "Ada", "lastName": "Lovelace", "company": "Analytical Engines", "line1": "1",
        "line2": "2", "city": "Köln", "state": "NRW", "postalCode": "D-50667", "country": "DE", "phone": "+49 221",
    });
    // Only its own route makes it the default.
    invalid(&merchant.api.post(ADDRESSES, with(full.clone(), "isDefaultBilling", true)).await?, "isDefaultBilling");
    let answer = merchant.api.post(ADDRESSES, full.clone()).await?;
    for (name, value) in full.as_object().expect("an object") {
        assert_eq!(&created(&answer)[name], value);
    }
    let read = merchant.api.get(&format!("{ADDRESSES}/{}", id(&answer.body)?)).await?;
    assert_eq!(ok(&read), &answer.body);
    Ok(())
}

#[tokio::test]
async fn fields_are_strict() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let path = format!("{ADDRESSES}/{}", address(&merchant, &customer).await?);
    for name in ["customerId", "line1", "country"] {
        invalid(&merchant.api.post(ADDRESSES, without(home(&customer), name)).await?, name);
        invalid(&merchant.api.post(ADDRESSES, with(home(&customer), name, Value::Null)).await?, name);
    }
    let texts = ["firstName", "lastName", "company", "line1", "line2", "city", "state", "postalCode", "phone"];
    let text = |name| (name, vec![json!(1), json!(""), json!("a\nb"), json!("x".repeat(256)), json!([]), json!(true)]);
    let country = ["", "U", "UK", "XK", "ZZ", "USA", "us ", "ı"].map(|code| json!(code)).to_vec();
    let particular = [("country", [country, vec![json!(1), json!(["US"])]].concat()), ("customerId", vec![json!(1)])];
    for (name, values) in texts.into_iter().map(text).chain(particular) {
        for value in values {
            invalid(&merchant.api.post(ADDRESSES, with(home(&customer), name, value.clone())).await?, name);
            invalid(&merchant.api.post(&path, json!({name: value})).await?, name);
        }
    }
    for name in texts {
        let widest = json!("é".repeat(255));
        let answer = merchant.api.post(&path, json!({name: widest})).await?;
        assert_eq!(ok(&answer)[name], widest, "{name}");
    }
    for (sent, kept) in [("fr", "FR"), ("Gb", "GB")] {
        assert_eq!(ok(&merchant.api.post(&path, json!({"country": sent})).await?)["country"], kept);
        assert_eq!(
            created(&merchant.api.post(ADDRESSES, with(home(&customer), "country", sent)).await?)["country"],
            kept
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_update_changes_only_what_is_sent() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let made = merchant.api.post(ADDRESSES, with(home(&customer), "city", "Bath")).await?;
    let path = format!("{ADDRESSES}/{}", id(created(&made))?);
    let changed = merchant.api.post(&path, json!({"line2": "2nd floor", "state": "Avon"})).await?;
    let expected = with(with(made.body.clone(), "line2", "2nd floor"), "state", "Avon");
    assert_eq!(ok(&changed), &expected);
    let nothing = [
        json!({}),
        json!({"line1": null, "city": null, "country": null, "customerId": null}),
        json!({"customerId": customer}),
    ];
    for nothing in nothing {
        assert_eq!(ok(&merchant.api.post(&path, nothing).await?), &expected);
    }
    assert_eq!(ok(&merchant.api.get(&path).await?), &expected);
    Ok(())
}

#[tokio::test]
async fn an_address_stays_with_its_customer() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other) = (merchant.customer().await?, merchant.customer().await?);
    let path = format!("{ADDRESSES}/{}", address(&merchant, &customer).await?);
    for changed in [other.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", &customer.to_lowercase(), ""] {
        invalid(&merchant.api.post(&path, json!({"customerId": changed, "city": "never"})).await?, "customerId");
        // Which customer it has only the address tells.
        not_found(&merchant.api.post(&format!("{ADDRESSES}/{UNKNOWN}"), json!({"customerId": changed})).await?);
    }
    let read = merchant.api.get(&path).await?;
    assert_eq!(ok(&read)["customerId"], customer);
    assert!(read.body.get("city").is_none(), "a refused update changes nothing");
    Ok(())
}

#[tokio::test]
async fn another_accounts_address_is_as_unknown_as_any() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let mine = address(&merchant, &customer).await?;
    let made = merchant.api.get(&format!("{ADDRESSES}/{mine}")).await?;
    for unknown in [customer.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        not_found(&stranger.api.post(ADDRESSES, home(unknown)).await?);
    }
    for unknown in [mine.as_str(), UNKNOWN, "nonsense", &customer] {
        let path = format!("{ADDRESSES}/{unknown}");
        not_found(&stranger.api.get(&path).await?);
        not_found(&stranger.api.post(&path, json!({"line1": "mine"})).await?);
        not_found(&stranger.api.post(&format!("{path}/default"), json!({"type": "billing"})).await?);
        // What the body says wrong comes before what the path names.
        invalid(&stranger.api.post(&path, json!({"line1": 1})).await?, "line1");
        invalid(&stranger.api.post(&format!("{path}/default"), json!({})).await?, "type");
    }
    assert_eq!(merchant.api.get(&format!("{ADDRESSES}/{mine}")).await?.body, ok(&made).clone());
    Ok(())
}
