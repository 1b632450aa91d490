//! The rows of an invoice: each field of each row, their order, and what they come to.

use anyhow::Result;
use serde_json::{Value, json};

use super::{INVOICES, of_items, owed, row, shown};
use crate::support::{created, id, invalid, merchant, with, without};

const MOST: i64 = 9_007_199_254_740_991;

#[tokio::test]
async fn rows_come_back_in_the_order_sent() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    // In no order that anybody would sort them into, and one of them twice.
    let mut items: Vec<_> = (0..99).map(|i| row(&format!("Row {}", i * 37 % 99), 1 + i * 5 % 7, i * 11 % 13)).collect();
    items.push(items[3].clone());
    let answer = merchant.api.post(INVOICES, of_items(&customer, &items)).await?;
    assert_eq!(created(&answer)["items"], json!(items));
    assert_eq!(shown(&merchant, &id(&answer.body)?).await?["items"], json!(items));
    let extra = with(row("Hours", 1, 1), "unheardOf", 1);
    let answer = merchant.api.post(INVOICES, of_items(&customer, &[extra])).await?;
    invalid(&answer, "items[0].unheardOf");
    Ok(())
}

#[tokio::test]
async fn an_error_names_the_field_of_its_row() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let refuses = async |third: Value, param: &str| -> Result<()> {
        let items = [row("One", 1, 1), row("Two", 2, 2), third, row("Four", 4, 4)];
        let answer = merchant.api.post(INVOICES, of_items(&customer, &items)).await?;
        invalid(&answer, param);
        let message = answer.body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(param) && !message.contains("secret"), "{message}");
        Ok(())
    };
    for name in ["description", "quantity", "unitAmount"] {
        let param = format!("items[2].{name}");
        refuses(without(row("Three", 3, 3), name), &param).await?;
        refuses(with(row("Three", 3, 3), name, Value::Null), &param).await?;
    }
    let no_number = [json!(-1), json!(1.5), json!(10.0), json!("10"), json!(true), json!([1]), json!(MOST + 1)];
    let no_text = [json!(1), json!(""), json!("a\nb"), json!("x".repeat(256)), json!(["secret"])];
    let no_quantity = [&no_number[..], &[json!(0)]].concat();
    for (name, values) in
        [("description", &no_text[..]), ("quantity", &no_quantity[..]), ("unitAmount", &no_number[..])]
    {
        for value in values {
            refuses(with(row("Three", 3, 3), name, value.clone()), &format!("items[2].{name}")).await?;
        }
    }
    for no_row in [json!(null), json!("secret"), json!(1), json!(-1), json!(0.5), json!(true), json!(["secret", 1, 1])]
    {
        refuses(no_row, "items[2]").await?;
    }
    for (count, right) in [(0, false), (1, true), (100, true), (101, false)] {
        let answer = merchant.api.post(INVOICES, of_items(&customer, &vec![row("Same", 1, 1); count])).await?;
        if right {
            assert_eq!(created(&answer)["amount"], count);
        } else {
            invalid(&answer, "items");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_total_is_what_rows_tax_and_discount_come_to() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let rows = || of_items(&customer, &[row("Hours", 4, 2500), row("Tea", 3, 7)]);
    for (tax, discount, total) in
        [(None, None, 10021), (Some(825), None, 10846), (None, Some(10020), 1), (Some(0), Some(0), 10021)]
    {
        let add = |body: Value, name, part: Option<i64>| part.map_or(body.clone(), |part| with(body, name, part));
        let body = add(add(rows(), "amountTax", tax), "amountDiscount", discount);
        let answer = merchant.api.post(INVOICES, body.clone()).await?;
        assert_eq!(created(&answer)["amount"], total);
        assert_eq!(answer.body.get("amountTax"), tax.map(Value::from).as_ref());
        assert_eq!(answer.body.get("amountDiscount"), discount.map(Value::from).as_ref());
        assert_eq!(created(&merchant.api.post(INVOICES, with(body.clone(), "amount", total)).await?)["amount"], total);
        for other in [total + 1, 10_020] {
            invalid(&merchant.api.post(INVOICES, with(body.clone(), "amount", other)).await?, "amount");
        }
    }
    for part in ["amountTax", "amountDiscount"] {
        for value in [0, 5] {
            invalid(&merchant.api.post(INVOICES, with(owed(&customer, 100), part, value)).await?, part);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_total_that_is_no_amount_is_refused_and_never_wraps() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let two = [row("Most", 1, MOST), row("Most", 1, MOST)];
    for (body, param) in [
        (of_items(&customer, &[row("Nothing", 5, 0)]), "items"),
        (of_items(&customer, &[row("All", MOST, MOST)]), "items"),
        (of_items(&customer, &vec![row("All", MOST, MOST); 100]), "items"),
        // 2^64 and 1 more: what a counter of 64 bits would take for 1.
        (of_items(&customer, &[row("Wrap", 1 << 32, 1 << 32), row("One", 1, 1)]), "items"),
        (of_items(&customer, &two), "items"),
        (with(of_items(&customer, &[row("Most", 1, MOST)]), "amountTax", 1), "amountTax"),
        (with(of_items(&customer, &[row("Hours", 1, 5)]), "amountDiscount", 5), "amountDiscount"),
        (with(of_items(&customer, &[row("Hours", 1, 5)]), "amountDiscount", MOST), "amountDiscount"),
    ] {
        invalid(&merchant.api.post(INVOICES, body).await?, param);
    }
    let most = with(of_items(&customer, &two), "amountDiscount", MOST);
    assert_eq!(created(&merchant.api.post(INVOICES, most).await?)["amount"], MOST);
    Ok(())
}
