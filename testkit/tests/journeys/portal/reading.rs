//! Lists and objects, of one's own merchant only.

use anyhow::Result;
use serde_json::json;
use testkit::receiver::Reply;

use super::Visitor;
use crate::support::{Receiver, created, eventually, id, merchant, ok, sale};

const LISTS: [(&str, &str, &str); 10] = [
    ("payments", "payments", "Payments"),
    ("refunds", "refunds", "Refunds"),
    ("customers", "customers", "Customers"),
    ("invoices", "invoices", "Invoices"),
    ("recurring-invoices", "recurring_invoices", "Recurring invoices"),
    ("subscriptions", "subscriptions", "Subscriptions"),
    ("payment-links", "payment_links", "Payment links"),
    ("plans", "plans", "Plans"),
    ("disputes", "disputes", "Disputes"),
    ("events", "events", "Events"),
];

#[tokio::test]
async fn every_object_is_found_by_its_merchant_and_by_no_other() -> Result<()> {
    let (merchant, other) = (merchant().await?, merchant().await?);
    let payment = created(&merchant.api.post("/v1/payments", sale(1_234)).await?).clone();
    merchant.refund(&id(&payment)?, Some(200)).await?;
    created(&merchant.api.post("/v1/payments", crate::support::payment(700, "tok_disputed")).await?);
    let customer = merchant.customer().await?;
    created(&merchant.save_card(&customer, "tok_ok").await?);
    for (path, body) in [
        ("/v1/invoices", json!({"customerId": customer, "currency": "USD", "amount": 500})),
        ("/v1/payment_links", json!({"amount": 900, "currency": "USD"})),
        ("/v1/plans", json!({"name": "Gold", "amount": 800, "currency": "USD", "interval": "month"})),
    ] {
        created(&merchant.api.post(path, body).await?);
    }
    let plan = merchant.api.get("/v1/plans").await?.body["data"][0]["id"].clone();
    created(&merchant.api.post("/v1/subscriptions", json!({"customerId": customer, "planId": plan})).await?);
    let template = json!({"currency": "USD", "paymentTerms": "net_7", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 5}]});
    let recurring = json!({"customerId": customer, "cadence": {"unit": "monthly"}, "template": template});
    created(&merchant.api.post("/v1/recurring_invoices", recurring).await?);

    let (own, foreign) = (Visitor::signed_in(&merchant, "viewer").await?, Visitor::signed_in(&other, "owner").await?);
    for (path, resource, title) in LISTS {
        let list = own.open(&format!("/test/{path}")).await?;
        assert_eq!(list.status, 200, "{path}: {}", list.html);
        assert!(list.html.contains(&format!("<h1>{title}</h1>")), "{path}: {}", list.html);
        let shown =
            ok(&merchant.api.get(&format!("/v1/{resource}")).await?)["data"].as_array().cloned().unwrap_or_default();
        assert!(resource == "disputes" || !shown.is_empty(), "{path}");
        for object in &shown {
            let address = format!("/test/{path}/{}", id(object)?);
            assert!(list.html.contains(&format!("href=\"{address}\"")), "{address} in {}", list.html);
            let page = own.open(&address).await?;
            assert!(page.status == 200 && page.html.contains(&id(object)?), "{address}: {}", page.html);
            assert_eq!(foreign.open(&address).await?.status, 404, "{address}");
            assert_eq!(foreign.open(&format!("/test/{path}?q={}", id(object)?)).await?.location(), address);
        }
        let theirs = foreign.open(&format!("/test/{path}.csv")).await?;
        assert_eq!(theirs.status, 200, "{path}");
        let own_csv = own.open(&format!("/test/{path}.csv")).await?;
        assert!(own_csv.headers["content-disposition"].to_str()?.contains(&format!("{path}.csv")));
        for object in &shown {
            assert!(own_csv.html.contains(&id(object)?), "{path}");
            assert!(!theirs.html.contains(&id(object)?), "{path}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_payment_is_shown_in_words_and_found_by_what_one_knows() -> Result<()> {
    let merchant = merchant().await?;
    let mut body = sale(123_456);
    body["description"] = "<script>alert(1)</script>".into();
    body["externalId"] = "order-77".into();
    let payment = created(&merchant.api.post("/v1/payments", body).await?).clone();
    let visitor = Visitor::signed_in(&merchant, "support").await?;
    let page = visitor.open(&format!("/test/payments/{}", id(&payment)?)).await?;
    for part in ["USD 1,234.56", "Approved", "order-77", "Timeline", "Payment captured", "&lt;script&gt;"] {
        assert!(page.html.contains(part), "{part} in {}", page.html);
    }
    assert!(!page.html.contains("<script>"), "{}", page.html);
    for (query, count) in
        [("q=order-77", 1), ("q=4242", 1), ("q=1111", 0), ("q=other", 0), ("status=declined", 0), ("q=%00", 0)]
    {
        let list = visitor.open(&format!("/test/payments?{query}")).await?;
        assert_eq!(
            (list.status, list.html.matches(&format!(">{}</a>", id(&payment)?)).count()),
            (200, count),
            "{query}: {}",
            list.html
        );
    }
    for unknown in ["/test/payments/pay_01KAJ4M2V8Q0S5T7W9X1Y3Z5A7", "/test/payments/..", "/test/nothing", "/other"] {
        assert_eq!(visitor.open(unknown).await?.status, 404, "{unknown}");
    }
    Ok(())
}

#[tokio::test]
async fn a_list_has_pages() -> Result<()> {
    let merchant = merchant().await?;
    for amount in 100..126 {
        created(&merchant.api.post("/v1/payment_links", json!({"amount": amount, "currency": "USD"})).await?);
    }
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    let first = visitor.open("/test/payment-links?status=open").await?;
    assert_eq!(first.html.matches("<tr>").count(), 1 + 25);
    let (_, link) =
        first.html.split_once("href=\"/test/payment-links?status=open&amp;startingAfter=").expect("a next page");
    let cursor = link.split('"').next().unwrap_or_default();
    let second = visitor.open(&format!("/test/payment-links?status=open&startingAfter={cursor}")).await?;
    assert_eq!(second.html.matches("<tr>").count(), 1 + 1, "{}", second.html);
    assert!(second.html.contains("USD 1.00") && second.html.contains("First page"), "{}", second.html);
    Ok(())
}

#[tokio::test]
async fn a_customer_is_found_by_name_with_all_that_belongs_to_it() -> Result<()> {
    let merchant = merchant().await?;
    let customer = json!({"email": "ada@shop.example", "name": "Ada Lovelace"});
    let customer = id(created(&merchant.api.post("/v1/customers", customer).await?))?;
    let card = id(created(&merchant.save_card(&customer, "tok_ok").await?))?;
    let body = json!({"amount": 700, "currency": "EUR", "paymentMethodId": card});
    let payment = id(created(&merchant.api.post("/v1/payments", body).await?))?;
    let visitor = Visitor::signed_in(&merchant, "support").await?;
    let object = format!("/test/customers/{customer}");
    for search in ["lovelace", "ADA", "ada@shop.example"] {
        let list = visitor.open(&format!("/test/customers?q={search}")).await?;
        assert!(list.html.contains(&format!("href=\"{object}\"")), "{search}: {}", list.html);
        let payments = visitor.open(&format!("/test/payments?q={search}&currency=EUR")).await?;
        assert_eq!(payments.location(), format!("/test/payments?currency=EUR&customerId={customer}"), "{search}");
        assert!(visitor.open(payments.location()).await?.html.contains(&payment), "{search}");
    }
    let page = visitor.open(&object).await?;
    for address in [format!("/test/cards/{card}"), format!("/test/payments/{payment}")] {
        assert!(page.html.contains(&format!("href=\"{address}\"")), "{address} in {}", page.html);
    }
    let shown = visitor.open(&format!("/test/cards/{card}")).await?;
    assert!(shown.html.contains("4242") && shown.html.contains(">Remove</button>"), "{}", shown.html);

    let today = &merchant.api.get(&format!("/v1/payments/{payment}")).await?.body["createdAt"];
    let today = today.as_str().and_then(|time| time.get(..10)).expect("a day");
    for (query, is_found) in [
        (format!("from={today}&to={today}"), true),
        ("to=2020-01-01".to_owned(), false),
        ("currency=EUR&amountFrom=7.00&amountTo=7".to_owned(), true),
        ("currency=EUR&amountTo=6.99".to_owned(), false),
        ("currency=USD".to_owned(), false),
    ] {
        let list = visitor.open(&format!("/test/payments?{query}")).await?;
        assert_eq!(list.html.contains(&payment), is_found, "{query}: {}", list.html);
        assert_eq!(visitor.open(&format!("/test/payments.csv?{query}")).await?.html.contains(&payment), is_found);
    }
    let list = visitor.open("/test/payments?amountFrom=7").await?;
    assert!(list.html.contains("Enter the currency of the amount as well."), "{}", list.html);
    Ok(())
}

#[tokio::test]
async fn rows_are_found_by_what_they_belong_to_and_by_their_names() -> Result<()> {
    let merchant = merchant().await?;
    let mut customers = Vec::new();
    for name in ["Ada Lovelace", "Ada Byron"] {
        let body = json!({"email": format!("{}@shop.example", name.replace(' ', ".")), "name": name});
        customers.push(id(created(&merchant.api.post("/v1/customers", body).await?))?);
    }
    let card = id(created(&merchant.save_card(&customers[0], "tok_ok").await?))?;
    let body = json!({"amount": 700, "currency": "EUR", "paymentMethodId": card, "externalId": "order-7"});
    let payment = id(created(&merchant.api.post("/v1/payments", body).await?))?;
    merchant.refund(&payment, Some(200)).await?;
    merchant.wait_for_status(&payment, "partially_refunded").await?;
    merchant.dispute(&payment).await?;
    let visitor = Visitor::signed_in(&merchant, "viewer").await?;
    for list in ["refunds", "disputes"] {
        let rows = format!("/test/{list}?paymentId={payment}");
        for search in ["4242", "order-7", "lovelace", "ada.lovelace@shop.example"] {
            assert_eq!(visitor.open(&format!("/test/{list}?q={search}")).await?.location(), rows, "{search}");
        }
        assert_eq!(visitor.open(&rows).await?.html.matches("<tr>").count(), 1 + 1);
        let unknown = visitor.open(&format!("/test/{list}?q=nobody")).await?;
        assert!(unknown.html.contains("Nothing found.") && !unknown.html.contains("<tbody>"), "{}", unknown.html);
    }
    // Of several customers, one is chosen.
    let several = visitor.open("/test/payments?q=ada").await?;
    for customer in &customers {
        let link = format!("<li><a href=\"/test/payments?customerId={customer}\">Ada ");
        assert!(several.html.contains(&link), "{link} in {}", several.html);
    }

    let plan = json!({"name": "Gold yearly", "amount": 800, "currency": "USD", "interval": "year"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let template = json!({"currency": "USD", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 5}]});
    let recurring = json!({"customerId": customers[0], "name": "Office", "cadence": {"unit": "monthly"},
        "startDate": "2090-01-15", "template": template});
    let recurring = id(created(&merchant.api.post("/v1/recurring_invoices", recurring).await?))?;
    for (list, search, found) in [
        ("plans", "gold", Some(&plan)),
        ("plans", "silver", None),
        ("recurring-invoices", "OFFICE", Some(&recurring)),
        ("recurring-invoices", "silver", None),
    ] {
        let html = visitor.open(&format!("/test/{list}?q={search}")).await?.html;
        assert_eq!(html.matches("<tr>").count(), found.map_or(0, |_| 1 + 1), "{list} {search}: {html}");
        assert!(found.is_none_or(|id| html.contains(id.as_str())), "{list} {search}: {html}");
    }
    let of_customer = visitor.open("/test/recurring-invoices?q=lovelace").await?;
    assert_eq!(of_customer.location(), format!("/test/recurring-invoices?customerId={}", customers[0]));
    let made = merchant.api.get("/v1/plans").await?;
    let request = made.header("request-id").unwrap_or_default();
    let by_request = visitor.open(&format!("/test/payments?q={request}")).await?;
    assert_eq!(by_request.location(), format!("/test/requests/{request}"));
    Ok(())
}

#[tokio::test]
async fn the_timeline_of_a_payment_says_who_did_what_and_what_came_of_it() -> Result<()> {
    let merchant = merchant().await?;
    let receiver = Receiver::start(|_| Reply::status(503)).await?;
    created(&merchant.api.post("/v1/webhook_endpoints", json!({"url": receiver.url("/hook")})).await?);
    let made = merchant.api.post("/v1/payments", sale(5_000)).await?;
    let payment = id(created(&made))?;
    let mut visitor = Visitor::signed_in(&merchant, "support").await?;
    let object = format!("/test/payments/{payment}");
    visitor.act(&object, &format!("{object}/refund"), &[("amount", "12.34")]).await?;
    merchant.wait_for_status(&payment, "partially_refunded").await?;
    let is_complete = async || {
        let page = visitor.open(&object).await?;
        let timeline = page.html.split_once("<h2>Timeline</h2>").map(|(_, after)| after.to_owned()).unwrap_or_default();
        let parts = [
            "requested: USD 50.00, by API key key_",
            "requested: USD 12.34, by ",
            "@",
            "sent to the provider",
            "accepted by the provider",
            "Payment captured",
            "response 503",
            "/test/requests/",
            "/test/deliveries/whd_",
        ];
        Ok(parts.iter().all(|part| timeline.contains(part)).then_some(()))
    };
    eventually("the timeline is complete", is_complete).await?;
    let declined = merchant.api.post("/v1/payments", crate::support::payment(700, "tok_insufficient")).await?;
    let page = visitor.open(&format!("/test/payments/{}", id(&declined.body)?)).await?;
    assert!(page.html.contains("Charge declined: "), "{}", page.html);
    Ok(())
}
