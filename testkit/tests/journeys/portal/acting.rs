//! Forms: one effect each, and only what the role includes.

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};

use super::{Page, Visitor};
use crate::invoices::draft;
use crate::support::{Merchant, cluster, created, eventually, id, merchant, ok, sale, uuid};

/// Sends the form of the object's page once. Returns the address of the page that it leads to.
async fn act(visitor: &Visitor, object: &str, action: &str, form: &[(&str, &str)]) -> Result<Page> {
    let address = format!("{object}/{action}");
    let page = visitor.open(object).await?;
    if page.html.contains(&format!("method=\"get\" action=\"{address}\"")) {
        return visitor.confirm(&address).await;
    }
    visitor.send(&address, page.nonce(&address)?, form).await
}

async fn payment(merchant: &Merchant, body: Value) -> Result<String> {
    id(created(&merchant.api.post("/v1/payments", body).await?))
}

async fn current(merchant: &Merchant, path: &str) -> Result<Value> {
    Ok(ok(&merchant.api.get(path).await?).clone())
}

#[tokio::test]
async fn a_refund_that_is_sent_many_times_is_one_refund() -> Result<()> {
    let merchant = merchant().await?;
    let payment = payment(&merchant, sale(5_000)).await?;
    let visitor = Visitor::signed_in(&merchant, "support").await?;
    let (object, address) = (format!("/test/payments/{payment}"), format!("/test/payments/{payment}/refund"));
    let page = visitor.open(&object).await?;
    let (nonce, form) = (page.nonce(&address)?, [("amount", "12.34"), ("reason", "Too late")]);
    let pages = try_join_all((0..10).map(|_| visitor.send(&address, nonce, &form))).await?;
    for page in pages {
        assert_eq!((page.status, page.location()), (303, format!("{object}?did={nonce}").as_str()), "{}", page.html);
    }
    merchant.wait_for_status(&payment, "partially_refunded").await?;
    let other = visitor.send(&address, nonce, &[("amount", "1.00")]).await?;
    assert!(other.status == 422 && other.html.contains("was sent before"), "{}", other.html);
    let shown_page = visitor.open(&format!("{object}?did={nonce}")).await?;
    assert!(shown_page.html.contains("Done."), "{}", shown_page.html);
    let shown = current(&merchant, &format!("/v1/payments/{payment}")).await?;
    assert_eq!((&shown["amountRefunded"], shown["refunds"].as_array().map(Vec::len)), (&json!(1_234), Some(1)));
    assert_eq!(shown["refunds"][0]["metadata"], json!({"reason": "Too late"}));

    for (amount, problem) in [
        ("50.00", "Amount to refund: at most USD 37.66"),
        ("1,234", "enter an amount such as 12.34"),
        ("0", "enter more than 0"),
    ] {
        let page = act(&visitor, &object, "refund", &[("amount", amount)]).await?;
        assert!(page.status == 422 && page.html.contains(problem), "{amount}: {}", page.html);
    }
    let page = visitor.open(&object).await?;
    assert!(page.html.contains("At most USD 37.66"), "{}", page.html);
    let refused = act(&visitor, &object, "refund", &[("amount", "")]).await?;
    assert_eq!(refused.status, 422, "an empty amount is not all of it: {}", refused.html);
    let rest = act(&visitor, &object, "refund", &[("amount", "37,66")]).await?;
    assert_eq!(rest.status, 303, "{}", rest.html);
    merchant.wait_for_status(&payment, "refunded").await?;
    Ok(())
}

/// The process was killed before it stored the outcome of this form.
async fn interrupt(merchant: &Merchant, nonce: &str) -> Result<()> {
    let forget = "UPDATE user_actions SET status = NULL, message = NULL WHERE nonce = $1";
    let done = sqlx::query(forget).bind(nonce).execute(&merchant.books.db).await?;
    assert_eq!(done.rows_affected(), 1);
    Ok(())
}

#[tokio::test]
async fn an_interrupted_form_never_has_two_effects() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "owner").await?;
    let customer = format!("/test/customers/{}", merchant.customer().await?);
    let payment = payment(&merchant, sale(5_000)).await?;
    let recurring = json!({"customerId": merchant.customer().await?, "cadence": {"unit": "monthly"},
        "template": {"currency": "USD", "paymentTerms": "net_7", "items": [{"description": "Rent", "quantity": 1, "unitAmount": 5}]}});
    let recurring = id(created(&merchant.api.post("/v1/recurring_invoices", recurring).await?))?;

    // The three wait for the first request to store its outcome, at the same time.
    let refund = async {
        let (object, address) = (format!("/test/payments/{payment}"), format!("/test/payments/{payment}/refund"));
        let page = visitor.open(&object).await?;
        let (nonce, form) = (page.nonce(&address)?, [("amount", "10")]);
        assert_eq!(visitor.send(&address, nonce, &form).await?.status, 303);
        interrupt(&merchant, nonce).await?;
        assert_eq!(visitor.send(&address, nonce, &form).await?.status, 303, "it is completed");
        let shown = current(&merchant, &format!("/v1/payments/{payment}")).await?;
        assert_eq!(shown["refunds"].as_array().map(Vec::len), Some(1), "{shown}");
        anyhow::Ok(())
    };
    let pause = async {
        let (path, object) =
            (format!("/v1/recurring_invoices/{recurring}"), format!("/test/recurring-invoices/{recurring}"));
        let (page, address) = (visitor.open(&object).await?, format!("{object}/pause"));
        let nonce = page.nonce(&address)?;
        assert_eq!(visitor.send(&address, nonce, &[]).await?.status, 303);
        assert_eq!(current(&merchant, &path).await?["status"], "paused");
        interrupt(&merchant, nonce).await?;
        ok(&merchant.api.post(&format!("{path}/resume"), json!({})).await?);
        let page = visitor.send(&address, nonce, &[]).await?;
        assert!(page.status == 202 && page.html.contains("The outcome is not known"), "{}", page.html);
        assert_eq!(current(&merchant, &path).await?["status"], "active", "it is not paused again");
        anyhow::Ok(())
    };
    let erase = async {
        let (address, nonce) = (format!("{customer}/erase"), "00000000000000000000000000000e5a");
        let nonce = format!("{}{}", &visitor.cookie[..16], &nonce[16..]);
        for _ in 0..2 {
            let page = visitor.send(&address, &nonce, &[("confirm", "yes")]).await?;
            assert_eq!(
                (page.status, page.location()),
                (303, &*format!("/test/customers?did={nonce}")),
                "{}",
                page.html
            );
            interrupt(&merchant, &nonce).await?;
        }
        anyhow::Ok(())
    };
    tokio::try_join!(refund, pause, erase).map(drop)
}

#[tokio::test]
async fn a_form_that_is_refused_can_be_corrected() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "support").await?;
    let address = "/test/invoices/new";
    let page = visitor.open(address).await?;
    let form =
        [("customerId", "cus_unknown"), ("amount", "12.50"), ("currency", "EUR"), ("description", "Two <hours>")];
    let page = visitor.send(address, page.nonce(address)?, &form).await?;
    assert_eq!(page.status, 422, "{}", page.html);
    for part in ["role=\"alert\"", "value=\"12.50\"", "value=\"Two &lt;hours&gt;\""] {
        assert!(page.html.contains(part), "{part} in {}", page.html);
    }
    let customer = merchant.customer().await?;
    let form = [("customerId", customer.as_str()), ("amount", "12.50"), ("currency", "EUR")];
    let page = visitor.send(address, page.nonce(address)?, &form).await?;
    assert!(page.status == 303 && page.location().starts_with("/test/invoices/inv_"), "{}", page.html);
    Ok(())
}

#[tokio::test]
async fn a_name_that_several_customers_may_have_is_refused() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "support").await?;
    let create = async |name: &str| {
        let body = json!({"email": "ada@shop.example", "name": name});
        id(created(&merchant.api.post("/v1/customers", body).await?))
    };
    let address = "/test/invoices/new";
    let send = async |nonce: &str, name: &str| {
        let form = [("customerId", name), ("amount", "12.50"), ("currency", "EUR")];
        visitor.send(address, nonce, &form).await
    };
    create("Bea Byron").await?;
    let nonce = visitor.open(address).await?.nonce(address)?.to_owned();
    let first = send(&nonce, "Bea Byron").await?;
    assert!(first.status == 303 && first.location().starts_with("/test/invoices/inv_"), "{}", first.html);
    create("Bea Byron").await?;
    let again = send(&nonce, "Bea Byron").await?;
    assert_eq!((again.status, again.location()), (303, first.location()), "{}", again.html);
    interrupt(&merchant, &nonce).await?;
    let unknown = send(&nonce, "Bea Byron").await?;
    assert!(unknown.status == 202 && unknown.html.contains("The outcome is not known"), "{}", unknown.html);
    assert_ne!(unknown.nonce(address).ok(), Some(&*nonce), "the form cannot be repeated with this name");

    for number in 0..25 {
        create(&format!("Ada Byron {number}")).await?;
    }
    create("Ada Byron").await?;
    for name in ["Bea Byron", "Ada Byron"] {
        let nonce = visitor.open(address).await?.nonce(address)?.to_owned();
        let refused = send(&nonce, name).await?;
        let problem = "Customer (ID, name or e-mail): several customers match";
        assert!(refused.status == 422 && refused.html.contains(problem), "{name}: {}", refused.html);
    }
    Ok(())
}

#[tokio::test]
async fn a_link_fills_in_objects_only() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "owner").await?;
    for page in ["webhooks/new?url=https%3A%2F%2Fevil.example", "invoices/new?description=evil&customerId=evil"] {
        let opened = visitor.open(&format!("/test/{page}")).await?;
        assert!(opened.status == 200 && !opened.html.contains("evil"), "{page}: {}", opened.html);
    }
    Ok(())
}

#[tokio::test]
async fn the_days_work_is_done_in_forms() -> Result<()> {
    let merchant = merchant().await?;
    let visitor = Visitor::signed_in(&merchant, "owner").await?;
    let mut held = sale(3_000);
    held["capture"] = false.into();
    for (action, form, status) in
        [("capture", &[("amount", "20.00")][..], "pending_settlement"), ("void", &[], "cancelled")]
    {
        let payment = payment(&merchant, held.clone()).await?;
        let page = act(&visitor, &format!("/test/payments/{payment}"), action, form).await?;
        assert_eq!(page.status, 303, "{}", page.html);
        merchant.wait_for_status(&payment, status).await?;
    }
    let create = async |list: &str, form: &[(&str, &str)]| {
        let address = format!("/test/{list}/new");
        let page = visitor.open(&address).await?;
        let nonce = page.nonce(&address)?;
        let page = visitor.send(&address, nonce, form).await?;
        let again = visitor.send(&address, nonce, form).await?;
        assert_eq!((page.status, page.location()), (again.status, again.location()), "{}", page.html);
        let object = page.location().split('?').next().context("a location")?.to_owned();
        assert!(visitor.open(page.location()).await?.html.contains("Done."), "{object}");
        anyhow::Ok(object)
    };
    let customer = create("customers", &[("email", "ada@shop.example"), ("name", "Ada")]).await?;
    let customer_id = customer.rsplit('/').next().context("an id")?;
    let money = [("amount", "12.50"), ("currency", "eur")];
    let link = create("payment-links", &money).await?;
    let lines = [
        ("currency", "EUR"),
        ("items.0.description", "Rent"),
        ("items.0.unitAmount", "9,50"),
        ("items.1.description", "Hours"),
        ("items.1.quantity", "3"),
        ("items.1.unitAmount", "20"),
    ];
    let of_lines = create("invoices", &[&[("customerId", "ada@shop.example")][..], &lines].concat()).await?;
    let shown = current(&merchant, &of_lines.replace("/test/", "/v1/")).await?;
    assert_eq!((&shown["amount"], &shown["customerId"]), (&json!(6_950), &json!(customer_id)), "{shown}");
    let prepared = visitor.open(&format!("/test/invoices/new?customerId={customer_id}")).await?;
    for part in [format!("value=\"{customer_id}\" required"), "ada@shop.example</option>".to_owned()] {
        assert!(prepared.html.contains(&part), "{part} in {}", prepared.html);
    }
    let invoice = create("invoices", &[&[("customerId", customer_id)][..], &money].concat()).await?;
    let plan = create("plans", &[&[("name", "Gold"), ("interval", "month")][..], &money].concat()).await?;
    let plan_id = plan.rsplit('/').next().context("an id")?;
    let subscription = create("subscriptions", &[("customerId", customer_id), ("planId", plan_id)]).await?;
    for (object, action, form) in [
        (&link, "cancel", &[][..]),
        (&invoice, "schedule", &[("collectAt", "2031-01-01T10:00")][..]),
        (&invoice, "cancel_schedule", &[]),
        (&invoice, "void", &[]),
        (&subscription, "cancel", &[]),
    ] {
        let page = act(&visitor, object, action, form).await?;
        assert!(page.status == 303 && page.location().starts_with(&format!("{object}?did=")), "{}", page.html);
    }
    for (object, status) in [(&link, "cancelled"), (&invoice, "voided"), (&subscription, "cancelled")] {
        let resource = object.replace("/test/", "/v1/").replace('-', "_");
        assert_eq!(current(&merchant, &resource).await?["status"], status, "{object}");
    }
    let address = format!("{customer}/erase");
    let asked = visitor.open(&address).await?;
    for part in ["Confirm", "Ada, ada@shop.example", "invoices remain"] {
        assert!(asked.html.contains(part), "{part} in {}", asked.html);
    }
    let unconfirmed = visitor.send(&address, asked.nonce(&address)?, &[]).await?;
    assert_eq!((unconfirmed.status, unconfirmed.location()), (303, &*address));
    assert_eq!(visitor.open(&customer).await?.status, 200, "not yet");
    let erased = visitor.send(&address, asked.nonce(&address)?, &[("confirm", "yes")]).await?;
    assert!(erased.status == 303 && visitor.open(erased.location()).await?.html.contains("Done."), "{}", erased.html);
    assert_eq!(visitor.open(&customer).await?.status, 404);
    let log = visitor.open("/test/activity").await?;
    for part in ["Payments capture", "Customers create", "Customers delete", "Subscriptions cancel", "Done"] {
        assert!(log.html.contains(part), "{part} in {}", log.html);
    }
    Ok(())
}

#[tokio::test]
async fn merchant_data_is_changed_once_and_never_over_the_change_of_another() -> Result<()> {
    let merchant = merchant().await?;
    let (visitor, colleague) =
        (Visitor::signed_in(&merchant, "support").await?, Visitor::signed_in(&merchant, "owner").await?);
    let invoice = draft(&merchant, &merchant.customer().await?, "net_7").await?;
    let link = json!({"amount": 900, "currency": "EUR"});
    let link = id(created(&merchant.api.post("/v1/payment_links", link).await?))?;
    for (object, path) in [
        (format!("/test/invoices/{invoice}"), format!("/v1/invoices/{invoice}")),
        (format!("/test/payment-links/{link}"), format!("/v1/payment_links/{link}")),
    ] {
        let own = json!({"metadata": {"order": "1", "note": "two\nlines"}, "externalId": "a-1"});
        ok(&merchant.api.post(&path, own).await?);
        let address = format!("{object}/save");
        let (first, second) = (visitor.open(&object).await?, colleague.open(&object).await?);
        let (fresh, stale) = (version(&first)?, version(&second)?);
        for part in ["value=\"a-1\"", ">order: 1</textarea>"] {
            assert!(first.html.contains(part), "{part} in {}", first.html);
        }
        let form = [("version", fresh), ("externalId", ""), ("metadata", "color: red\r\nsize: XL")];
        let nonce = first.nonce(&address)?;
        let sent = try_join_all((0..5).map(|_| visitor.send(&address, nonce, &form))).await?;
        for page in &sent {
            let expected = format!("{object}?did={nonce}");
            assert_eq!((page.status, page.location()), (303, expected.as_str()), "{}", page.html);
        }
        let saved = current(&merchant, &path).await?;
        let expected = json!({"color": "red", "size": "XL", "note": "two\nlines"});
        assert_eq!((&saved["metadata"], saved.get("externalId")), (&expected, None), "{saved}");

        let form = [("version", stale), ("externalId", "b-2"), ("metadata", "order: 2")];
        let refused = colleague.send(&address, second.nonce(&address)?, &form).await?;
        for part in ["was changed meanwhile", ">color: red\nsize: XL</textarea>"] {
            assert!(refused.status == 422 && refused.html.contains(part), "{part} in {}", refused.html);
        }
        assert_eq!(current(&merchant, &path).await?, saved);
        let form = [("version", version(&refused)?), ("externalId", "b-2"), ("metadata", "color: red")];
        let done = colleague.send(&address, refused.nonce(&address)?, &form).await?;
        assert_eq!(done.status, 303, "{}", done.html);
        let saved = current(&merchant, &path).await?;
        let expected = json!({"color": "red", "note": "two\nlines"});
        assert_eq!((&saved["metadata"], &saved["externalId"]), (&expected, &json!("b-2")), "{saved}");
        let wrong = [("version", &*saved["version"].to_string()), ("externalId", "b-2"), ("metadata", "no colon")];
        let page = colleague.open(&object).await?;
        let refused = colleague.send(&address, page.nonce(&address)?, &wrong).await?;
        assert!(refused.status == 422 && refused.html.contains("a name, a colon and a value"), "{}", refused.html);
    }
    Ok(())
}

/// Both forms have the present version when they are compared with it, and wait for the row then.
#[tokio::test]
async fn of_two_changes_at_the_same_time_the_second_is_refused() -> Result<()> {
    let merchant = merchant().await?;
    let visitors = [Visitor::signed_in(&merchant, "support").await?, Visitor::signed_in(&merchant, "owner").await?];
    let plan = json!({"name": "Gold", "amount": 900, "currency": "EUR", "interval": "month"});
    let plan = id(created(&merchant.api.post("/v1/plans", plan).await?))?;
    let (object, address) = (format!("/test/plans/{plan}"), format!("/test/plans/{plan}/save"));
    let pages = try_join_all(visitors.iter().map(|visitor| visitor.open(&object))).await?;
    let mut holder = PgConnection::connect(cluster().await?.database_url()).await?;
    let (pid, row): (i32, _) =
        (sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut holder).await?, uuid(&plan)?);
    sqlx::query("BEGIN").execute(&mut holder).await?;
    sqlx::query("SELECT FROM plans WHERE id = $1 FOR UPDATE").bind(row).execute(&mut holder).await?;
    let send = async |nth: usize| {
        let form = [("version", version(&pages[nth])?), ("externalId", ["a", "b"][nth]), ("metadata", "")];
        visitors[nth].send(&address, pages[nth].nonce(&address)?, &form).await
    };
    let (first, second, ()) = tokio::try_join!(send(0), send(1), async {
        eventually("both changes wait", async || {
            // The second waits for the first, which waits for the test.
            let waiting = "WITH RECURSIVE waiting (pid) AS (
                               SELECT $1::int UNION SELECT a.pid FROM pg_stat_activity a, waiting w
                               WHERE a.wait_event_type = 'Lock' AND w.pid = ANY (pg_blocking_pids(a.pid)))
                           SELECT count(*) - 1 FROM waiting";
            let waiting: i64 = sqlx::query_scalar(waiting).bind(pid).fetch_one(&merchant.books.db).await?;
            Ok((waiting == 2).then_some(()))
        })
        .await?;
        sqlx::query("COMMIT").execute(&mut holder).await?;
        anyhow::Ok(())
    })?;
    let (done, refused) = if first.status == 303 { (&first, &second) } else { (&second, &first) };
    assert_eq!((done.status, refused.status), (303, 422), "{} {}", done.html, refused.html);
    let saved = current(&merchant, &format!("/v1/plans/{plan}")).await?;
    let own = saved["externalId"].as_str().context("its own reference")?;
    let shown = [format!("value=\"{own}\""), format!("value=\"{}\"", saved["version"])];
    for part in ["was changed meanwhile", &shown[0], &shown[1]] {
        assert!(refused.html.contains(part), "{part} in {}", refused.html);
    }
    Ok(())
}

/// The version that a form has.
pub(super) fn version(page: &Page) -> Result<&str> {
    let rest = page.html.split("name=\"version\" value=\"").nth(1).with_context(|| page.html.clone())?;
    rest.split('"').next().context("a version")
}

#[tokio::test]
async fn a_role_does_what_it_includes_and_nothing_else() -> Result<()> {
    let (merchant, other) = (merchant().await?, merchant().await?);
    let payment = payment(&merchant, sale(5_000)).await?;
    let customer = merchant.customer().await?;
    for (role, refund, create, erase) in
        [("viewer", 403, 403, 403), ("developer", 303, 303, 403), ("support", 303, 303, 303), ("owner", 303, 303, 303)]
    {
        let visitor = Visitor::signed_in(&merchant, role).await?;
        let post = async |path: String, end: &str, form: &[(&str, &str)]| {
            let nonce = format!("{}{end}", &visitor.cookie[..31]);
            let page = visitor.send(&path, &nonce, form).await?;
            anyhow::Ok(page.status)
        };
        let refunded = post(format!("/test/payments/{payment}/refund"), "1", &[("amount", "1.00")]).await?;
        let made = post("/test/customers/new".to_owned(), "2", &[("email", "ada@shop.example")]).await?;
        let erased = post(format!("/test/customers/{customer}/erase"), "3", &[]).await?;
        assert_eq!((refunded, made, erased), (refund, create, erase), "{role}");
        let page = visitor.open(&format!("/test/payments/{payment}")).await?;
        assert_eq!(page.html.contains(">Refund</button>"), refund == 303, "{role}: {}", page.html);
    }
    let foreign = Visitor::signed_in(&other, "owner").await?;
    for path in [format!("/test/payments/{payment}/refund"), format!("/test/customers/{customer}/erase")] {
        let nonce = format!("{}{}", &foreign.cookie[..30], path.len());
        let page = foreign.send(&path, &nonce, &[("confirm", "yes")]).await?;
        assert_eq!(page.status, 404, "{path}");
    }
    current(&merchant, &format!("/v1/customers/{customer}")).await?;
    let owner = Visitor::signed_in(&merchant, "owner").await?;
    let path = format!("/test/payments/{payment}/refund");
    assert_eq!(owner.post(&path, &owner.url, &[("amount", "1.00")]).await?.status, 422, "a form without a nonce");
    assert_eq!(owner.post(&path, "https://evil.example", &[("amount", "1.00")]).await?.status, 403);
    merchant.wait_for_status(&payment, "partially_refunded").await?;
    let shown = current(&merchant, &format!("/v1/payments/{payment}")).await?;
    assert_eq!(shown["refunds"].as_array().map(Vec::len), Some(3), "{shown}");
    Ok(())
}
