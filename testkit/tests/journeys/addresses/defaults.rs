//! The default billing and the default shipping address of a customer: one of each at most, whoever asks at once.

use anyhow::Result;
use serde_json::{Value, json};

use super::{ADDRESSES, address, make_default};
use crate::support::{Merchant, invalid, merchant, ok, together};

const FLAGS: [(&str, &str); 2] = [("billing", "isDefaultBilling"), ("shipping", "isDefaultShipping")];

/// The addresses of a customer that are the default in a role.
async fn defaults(merchant: &Merchant, customer: &str, flag: &str) -> Result<Vec<String>> {
    let page = merchant.api.get(&format!("{ADDRESSES}?customerId={customer}&limit=100")).await?;
    let rows = ok(&page)["data"].as_array().into_iter().flatten();
    let is_default = |row: &&Value| row[flag].as_bool().expect("a flag on every address");
    Ok(rows.filter(is_default).map(|row| row["id"].as_str().unwrap_or_default().to_owned()).collect())
}

#[tokio::test]
async fn a_new_default_takes_the_place_of_the_former() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other) = (merchant.customer().await?, merchant.customer().await?);
    let (one, two) = (address(&merchant, &customer).await?, address(&merchant, &customer).await?);
    let theirs = address(&merchant, &other).await?;
    make_default(&merchant, &theirs, "billing").await?;
    for (_, flag) in FLAGS {
        assert!(defaults(&merchant, &customer, flag).await?.is_empty(), "none until one is made so");
    }
    // Each twice: to make it so again changes nothing.
    for (chosen, role, billing, shipping) in [
        (&one, "billing", Some(&one), None),
        (&one, "billing", Some(&one), None),
        (&one, "shipping", Some(&one), Some(&one)),
        (&two, "billing", Some(&two), Some(&one)),
        (&two, "shipping", Some(&two), Some(&two)),
        (&two, "shipping", Some(&two), Some(&two)),
        (&one, "shipping", Some(&two), Some(&one)),
    ] {
        let answer = make_default(&merchant, chosen, role).await?;
        for (flag, expected) in [("isDefaultBilling", billing), ("isDefaultShipping", shipping)] {
            assert_eq!(ok(&answer)[flag], Value::from(expected == Some(chosen)), "{flag}");
            let expected: Vec<_> = expected.into_iter().cloned().collect();
            assert_eq!(defaults(&merchant, &customer, flag).await?, expected, "{flag}");
        }
        assert_eq!(merchant.api.get(&format!("{ADDRESSES}/{chosen}")).await?.body, answer.body);
        let changed = merchant.api.post(&format!("{ADDRESSES}/{chosen}"), json!({"line1": "1 Main St"})).await?;
        assert_eq!(ok(&changed), &answer.body, "an update leaves the defaults alone, and shows them");
    }
    assert_eq!(defaults(&merchant, &other, "isDefaultBilling").await?, [theirs], "each customer has their own");
    Ok(())
}

#[tokio::test]
async fn the_type_is_required_and_one_of_two() -> Result<()> {
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
async fn of_many_defaults_at_once_one_stays() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let all = together(20, async |_| address(&merchant, &customer).await).await?;
    // Each address is asked for in both roles, while some look on.
    let answers = together(50, async |i| {
        let Some(chosen) = all.get(i % 25) else {
            for (_, flag) in FLAGS {
                assert!(defaults(&merchant, &customer, flag).await?.len() <= 1, "never two");
            }
            return Ok(None);
        };
        let (role, flag) = FLAGS[i / 25];
        let answer = make_default(&merchant, chosen, role).await?;
        assert_eq!(ok(&answer)[flag], true, "it was the default at that moment");
        Ok(Some(answer))
    })
    .await?;
    assert_eq!(answers.iter().flatten().count(), 40);
    for (_, flag) in FLAGS {
        let [last] = &defaults(&merchant, &customer, flag).await?[..] else { panic!("exactly one {flag}") };
        assert!(all.contains(last));
    }
    Ok(())
}

#[tokio::test]
async fn the_schema_refuses_another_customers_address_as_a_default() -> Result<()> {
    let merchant = merchant().await?;
    let (customer, other) = (merchant.customer().await?, merchant.customer().await?);
    let theirs = crate::support::uuid(&address(&merchant, &other).await?)?;
    for column in ["default_billing_address_id", "default_shipping_address_id"] {
        let statement = format!("UPDATE customers SET {column} = $2 WHERE id = $1");
        let written = sqlx::query(sqlx::AssertSqlSafe(statement))
            .bind(crate::support::uuid(&customer)?)
            .bind(theirs)
            .execute(&merchant.books.db)
            .await;
        let refused = written.expect_err("no such address of this customer");
        let constraint = refused.as_database_error().and_then(|error| error.constraint());
        assert_eq!(constraint, Some(format!("customers_{}", column.trim_end_matches("_id")).as_str()));
    }
    Ok(())
}
