//! A customer has at most one default billing and one default shipping address, also under concurrent requests.

use anyhow::Result;
use serde_json::{Value, json};

use super::{ADDRESSES, address, make_default};
use crate::support::{Merchant, concurrently, invalid, merchant, ok};

const FLAGS: [(&str, &str); 2] = [("billing", "isDefaultBilling"), ("shipping", "isDefaultShipping")];

/// The ids of a customer's addresses that have a default flag.
async fn defaults(merchant: &Merchant, customer: &str, flag: &str) -> Result<Vec<String>> {
    let page = merchant.api.get(&format!("{ADDRESSES}?customerId={customer}&limit=100")).await?;
    let rows = ok(&page)["data"].as_array().into_iter().flatten();
    let is_default = |row: &&Value| row[flag].as_bool().expect("every address has the flag");
    Ok(rows.filter(is_default).map(|row| row["id"].as_str().unwrap_or_default().to_owned()).collect())
}

#[tokio::test]
async fn a_new_default_replaces_the_previous_one() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other) = (merchant.customer().await?, merchant.customer().await?);
    let (one, two) = (address(&merchant, &customer).await?, address(&merchant, &customer).await?);
    let other_address = address(&merchant, &other).await?;
    make_default(&merchant, &other_address, "billing").await?;
    for (_, flag) in FLAGS {
        assert!(defaults(&merchant, &customer, flag).await?.is_empty(), "no address is the default at first");
    }
    // Some steps occur twice, because repeating one must change nothing.
    for (chosen, role, billing, shipping) in [
        (&one, "billing", Some(&one), None),
        (&one, "billing", Some(&one), None),
        (&one, "shipping", Some(&one), Some(&one)),
        (&two, "billing", Some(&two), Some(&one)),
        (&two, "shipping", Some(&two), Some(&two)),
        (&two, "shipping", Some(&two), Some(&two)),
        (&one, "shipping", Some(&two), Some(&one)),
    ] {
        let response = make_default(&merchant, chosen, role).await?;
        for (flag, expected) in [("isDefaultBilling", billing), ("isDefaultShipping", shipping)] {
            assert_eq!(ok(&response)[flag], Value::from(expected == Some(chosen)), "{flag}");
            let expected: Vec<_> = expected.into_iter().cloned().collect();
            assert_eq!(defaults(&merchant, &customer, flag).await?, expected, "{flag}");
        }
        assert_eq!(merchant.api.get(&format!("{ADDRESSES}/{chosen}")).await?.body, response.body);
        let changed = merchant.api.post(&format!("{ADDRESSES}/{chosen}"), json!({"line1": "1 Main St"})).await?;
        assert_eq!(ok(&changed), &response.body, "an update keeps the defaults and returns them");
    }
    assert_eq!(
        defaults(&merchant, &other, "isDefaultBilling").await?,
        [other_address],
        "each customer has separate defaults"
    );
    Ok(())
}

#[tokio::test]
async fn the_type_must_be_billing_or_shipping() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let path = format!("{ADDRESSES}/{}/default", address(&merchant, &customer).await?);
    invalid(&merchant.api.send(reqwest::Method::POST, &path, None).await?, "type");
    for wrong in [json!(null), json!(""), json!("Billing"), json!("both"), json!(1), json!(["billing"])] {
        invalid(&merchant.api.post(&path, json!({"type": wrong})).await?, "type");
    }
    for (_, flag) in FLAGS {
        assert!(defaults(&merchant, &customer, flag).await?.is_empty());
    }
    Ok(())
}

#[tokio::test]
async fn concurrent_defaults_leave_exactly_one() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let all = concurrently(20, async |_| address(&merchant, &customer).await).await?;
    // Each address is made the default in both roles while other requests read the defaults.
    let responses = concurrently(50, async |i| {
        let Some(chosen) = all.get(i % 25) else {
            for (_, flag) in FLAGS {
                assert!(defaults(&merchant, &customer, flag).await?.len() <= 1, "at most one default");
            }
            return Ok(None);
        };
        let (role, flag) = FLAGS[i / 25];
        let response = make_default(&merchant, chosen, role).await?;
        assert_eq!(ok(&response)[flag], true, "the response shows the new default");
        Ok(Some(response))
    })
    .await?;
    assert_eq!(responses.iter().flatten().count(), 40);
    for (_, flag) in FLAGS {
        let [last] = &defaults(&merchant, &customer, flag).await?[..] else { panic!("exactly one {flag}") };
        assert!(all.contains(last));
    }
    Ok(())
}

#[tokio::test]
async fn the_schema_rejects_another_customers_address_as_default() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other) = (merchant.customer().await?, merchant.customer().await?);
    let other_address = crate::support::uuid(&address(&merchant, &other).await?)?;
    for column in ["default_billing_address_id", "default_shipping_address_id"] {
        let statement = format!("UPDATE customers SET {column} = $2 WHERE id = $1");
        let written = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(crate::support::uuid(&customer)?)
            .bind(other_address)
            .execute(&merchant.books.db)
            .await;
        let refused = written.expect_err("the foreign key must reject it");
        let constraint = refused.as_database_error().and_then(|error| error.constraint());
        assert_eq!(constraint, Some(format!("customers_{}", column.trim_end_matches("_id")).as_str()));
    }
    Ok(())
}
