//! Invoice items: their fields, their order and the total.

use anyhow::Result;
use serde_json::{Value, json};

use super::{INVOICES, get_invoice, minimal, row, with_items};
use crate::support::{created, id, invalid, merchant, with, without};

const MAX: i64 = 9_007_199_254_740_991;

#[tokio::test]
async fn items_are_returned_in_the_order_sent() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    // An order that matches no sort key, and one item twice.
    let mut items: Vec<_> = (0..99).map(|i| row(&format!("Row {}", i * 37 % 99), 1 + i * 5 % 7, i * 11 % 13)).collect();
    items.push(items[3].clone());
    let response = merchant.api.post(INVOICES, with_items(&customer, &items)).await?;
    assert_eq!(created(&response)["items"], json!(items));
    assert_eq!(get_invoice(&merchant, &id(&response.body)?).await?["items"], json!(items));
    let extra = with(row("Hours", 1, 1), "unknownField", 1);
    let response = merchant.api.post(INVOICES, with_items(&customer, &[extra])).await?;
    invalid(&response, "items[0].unknownField");
    Ok(())
}

#[tokio::test]
async fn errors_name_the_item_and_its_field() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let rejects = async |third: Value, param: &str| -> Result<()> {
        let items = [row("One", 1, 1), row("Two", 2, 2), third, row("Four", 4, 4)];
        let response = merchant.api.post(INVOICES, with_items(&customer, &items)).await?;
        invalid(&response, param);
        let message = response.body["error"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(param) && !message.contains("secret"), "{message}");
        Ok(())
    };
    for name in ["description", "quantity", "unitAmount"] {
        let param = format!("items[2].{name}");
        rejects(without(row("Three", 3, 3), name), &param).await?;
        rejects(with(row("Three", 3, 3), name, Value::Null), &param).await?;
    }
    let not_a_number = [json!(-1), json!(1.5), json!(10.0), json!("10"), json!(true), json!([1]), json!(MAX + 1)];
    let not_a_text = [json!(1), json!(""), json!("a\nb"), json!("x".repeat(256)), json!(["secret"])];
    let not_a_quantity = [&not_a_number[..], &[json!(0)]].concat();
    for (name, values) in
        [("description", &not_a_text[..]), ("quantity", &not_a_quantity[..]), ("unitAmount", &not_a_number[..])]
    {
        for value in values {
            rejects(with(row("Three", 3, 3), name, value.clone()), &format!("items[2].{name}")).await?;
        }
    }
    for not_a_row in
        [json!(null), json!("secret"), json!(1), json!(-1), json!(0.5), json!(true), json!(["secret", 1, 1])]
    {
        rejects(not_a_row, "items[2]").await?;
    }
    for (count, valid) in [(0, false), (1, true), (100, true), (101, false)] {
        let response = merchant.api.post(INVOICES, with_items(&customer, &vec![row("Same", 1, 1); count])).await?;
        if valid {
            assert_eq!(created(&response)["amount"], count);
        } else {
            invalid(&response, "items");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_total_is_items_plus_tax_minus_discount() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let rows = || with_items(&customer, &[row("Hours", 4, 2500), row("Tea", 3, 7)]);
    for (tax, discount, total) in
        [(None, None, 10021), (Some(825), None, 10846), (None, Some(10020), 1), (Some(0), Some(0), 10021)]
    {
        let add = |body: Value, name, part: Option<i64>| part.map_or(body.clone(), |part| with(body, name, part));
        let body = add(add(rows(), "amountTax", tax), "amountDiscount", discount);
        let response = merchant.api.post(INVOICES, body.clone()).await?;
        assert_eq!(created(&response)["amount"], total);
        assert_eq!(response.body.get("amountTax"), tax.map(Value::from).as_ref());
        assert_eq!(response.body.get("amountDiscount"), discount.map(Value::from).as_ref());
        assert_eq!(created(&merchant.api.post(INVOICES, with(body.clone(), "amount", total)).await?)["amount"], total);
        for other in [total + 1, 10_020] {
            invalid(&merchant.api.post(INVOICES, with(body.clone(), "amount", other)).await?, "amount");
        }
    }
    for part in ["amountTax", "amountDiscount"] {
        for value in [0, 5] {
            invalid(&merchant.api.post(INVOICES, with(minimal(&customer, 100), part, value)).await?, part);
        }
    }
    Ok(())
}

#[tokio::test]
async fn invalid_totals_are_rejected_and_never_wrap() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let two_max_rows = [row("Most", 1, MAX), row("Most", 1, MAX)];
    for (body, param) in [
        (with_items(&customer, &[row("Nothing", 5, 0)]), "items"),
        (with_items(&customer, &[row("All", MAX, MAX)]), "items"),
        (with_items(&customer, &vec![row("All", MAX, MAX); 100]), "items"),
        // 2^64 + 1, which wraps to 1 in 64 bits.
        (with_items(&customer, &[row("Wrap", 1 << 32, 1 << 32), row("One", 1, 1)]), "items"),
        (with_items(&customer, &two_max_rows), "items"),
        (with(with_items(&customer, &[row("Most", 1, MAX)]), "amountTax", 1), "amountTax"),
        (with(with_items(&customer, &[row("Hours", 1, 5)]), "amountDiscount", 5), "amountDiscount"),
        (with(with_items(&customer, &[row("Hours", 1, 5)]), "amountDiscount", MAX), "amountDiscount"),
    ] {
        invalid(&merchant.api.post(INVOICES, body).await?, param);
    }
    let max_total = with(with_items(&customer, &two_max_rows), "amountDiscount", MAX);
    assert_eq!(created(&merchant.api.post(INVOICES, max_total).await?)["amount"], MAX);
    Ok(())
}
