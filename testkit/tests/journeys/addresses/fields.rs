//! The fields of an address: what is stored, what an update changes, and what is rejected.

use anyhow::Result;
use serde_json::{Value, json};

use super::{ADDRESSES, UNKNOWN, address, home};
use crate::support::{created, id, invalid, merchant, not_found, ok, with, without};

#[tokio::test]
async fn documented_fields_are_stored_and_returned() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let response = merchant.api.post(ADDRESSES, home(&customer)).await?;
    let original = created(&response);
    assert!(id(original)?.starts_with("adr_"));
    let plain = without(without(original.clone(), "id"), "createdAt");
    let expected = json!({
        "object": "address", "livemode": false, "version": 1, "customerId": customer, "line1": "1 Main St", "country": "US",
        "isDefaultBilling": false, "isDefaultShipping": false,
    });
    assert_eq!(plain, expected, "the first address is not a default");

    let full = json!({
        "customerId": customer, "firstName": "Ada", "lastName": "Lovelace", "company": "Analytical Engines", "line1": "1",
        "line2": "2", "city": "Köln", "state": "NRW", "postalCode": "D-50667", "country": "DE", "phone": "+49 221",
    });
    // Only the `default` route sets a default.
    invalid(&merchant.api.post(ADDRESSES, with(full.clone(), "isDefaultBilling", true)).await?, "isDefaultBilling");
    let response = merchant.api.post(ADDRESSES, full.clone()).await?;
    for (name, value) in full.as_object().expect("an object") {
        assert_eq!(&created(&response)[name], value);
    }
    let read = merchant.api.get(&format!("{ADDRESSES}/{}", id(&response.body)?)).await?;
    assert_eq!(ok(&read), &response.body);
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
    let others = [("country", [country, vec![json!(1), json!(["US"])]].concat()), ("customerId", vec![json!(1)])];
    for (name, values) in texts.into_iter().map(text).chain(others) {
        for value in values {
            invalid(&merchant.api.post(ADDRESSES, with(home(&customer), name, value.clone())).await?, name);
            invalid(&merchant.api.post(&path, json!({name: value})).await?, name);
        }
    }
    for name in texts {
        let longest = json!("é".repeat(255));
        let response = merchant.api.post(&path, json!({name: longest})).await?;
        assert_eq!(ok(&response)[name], longest, "{name}");
    }
    for (sent, stored) in [("fr", "FR"), ("Gb", "GB")] {
        assert_eq!(ok(&merchant.api.post(&path, json!({"country": sent})).await?)["country"], stored);
        assert_eq!(
            created(&merchant.api.post(ADDRESSES, with(home(&customer), "country", sent)).await?)["country"],
            stored
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_update_changes_only_what_is_sent() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let original = merchant.api.post(ADDRESSES, with(home(&customer), "city", "Bath")).await?;
    let path = format!("{ADDRESSES}/{}", id(created(&original))?);
    let changed = merchant.api.post(&path, json!({"line2": "2nd floor", "state": "Avon"})).await?;
    let expected = with(with(with(original.body.clone(), "line2", "2nd floor"), "state", "Avon"), "version", 2);
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
        // The address is looked up before its customer is compared.
        not_found(&merchant.api.post(&format!("{ADDRESSES}/{UNKNOWN}"), json!({"customerId": changed})).await?);
    }
    let read = merchant.api.get(&path).await?;
    assert_eq!(ok(&read)["customerId"], customer);
    assert!(read.body.get("city").is_none(), "a rejected update changes nothing");
    Ok(())
}

#[tokio::test]
async fn another_accounts_address_does_not_exist() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let own_address = address(&merchant, &customer).await?;
    let original = merchant.api.get(&format!("{ADDRESSES}/{own_address}")).await?;
    for unknown in [customer.as_str(), "cus_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense"] {
        not_found(&other_merchant.api.post(ADDRESSES, home(unknown)).await?);
    }
    for unknown in [own_address.as_str(), UNKNOWN, "nonsense", &customer] {
        let path = format!("{ADDRESSES}/{unknown}");
        not_found(&other_merchant.api.get(&path).await?);
        not_found(&other_merchant.api.post(&path, json!({"line1": "mine"})).await?);
        not_found(&other_merchant.api.post(&format!("{path}/default"), json!({"type": "billing"})).await?);
        // The body is validated before the path's object is looked up.
        invalid(&other_merchant.api.post(&path, json!({"line1": 1})).await?, "line1");
        invalid(&other_merchant.api.post(&format!("{path}/default"), json!({})).await?, "type");
    }
    assert_eq!(merchant.api.get(&format!("{ADDRESSES}/{own_address}")).await?.body, ok(&original).clone());
    Ok(())
}
