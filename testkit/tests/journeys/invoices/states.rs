//! Where an invoice stands: issued once, voided whenever nothing is under way, and never anything the constraints refuse.

use anyhow::Result;
use serde_json::json;
use sqlx::AssertSqlSafe;

use super::{INVOICES, UNKNOWN, ask, draft, invoice, owed, shown};
use crate::support::{Merchant, cluster, conflict, created, id, merchant, ok, refused, together, uuid, with, without};

/// Writes columns of an invoice by hand.
async fn set(merchant: &Merchant, invoice: &str, columns: &str) -> Result<(), sqlx::Error> {
    let statement = format!("UPDATE invoices SET {columns} WHERE id = $1");
    let id = uuid(invoice).expect("an id");
    sqlx::query(AssertSqlSafe(statement)).bind(id).execute(&merchant.books.db).await.map(drop)
}

/// Hangs a payment on an invoice by hand, in this status.
async fn pay(merchant: &Merchant, invoice: &str, payment: &str, status: &str) -> Result<()> {
    sqlx::query(
        "UPDATE payments SET invoice_id = $2, status = $3::payment_status, action_token = id::text, challenge_url = 'https://bank'
         WHERE id = $1",
    )
        .bind(uuid(payment)?)
        .bind(uuid(invoice)?)
        .bind(status)
        .execute(&merchant.books.db)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_draft_is_issued_once() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let written = draft(&merchant, &customer, "net_7").await?;
    let before = shown(&merchant, &written).await?;
    assert_eq!((&before["status"], &before["paymentTerms"]), (&json!("draft"), &json!("net_7")));
    for absent in ["number", "issuedAt", "dueAt", "paidAt", "voidedAt", "url", "collectionExhausted"] {
        assert!(before.get(absent).is_none(), "{absent}");
    }
    let answer = ask(&merchant, &written, "issue").await?;
    let issued = ok(&answer);
    assert_eq!((&issued["status"], &issued["number"]), (&json!("open"), &json!("INV-000001")));
    assert!(issued["issuedAt"].is_string() && issued["dueAt"].is_string() && issued["url"].is_string(), "{issued}");
    let unchanged = ["issuedAt", "dueAt", "number", "url"].into_iter().fold(issued.clone(), without);
    assert_eq!(unchanged, with(before, "status", "open"), "nothing else changes");
    conflict(&ask(&merchant, &written, "issue").await?);
    assert_eq!(&shown(&merchant, &written).await?, issued);
    conflict(&ask(&merchant, &id(&invoice(&merchant, &customer).await?)?, "issue").await?);
    Ok(())
}

#[tokio::test]
async fn terms_count_days_in_the_zone_of_the_account() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    // A zone whose clocks change within two months, if there is one: there the days are not all of 24 hours.
    let zone: String = sqlx::query_scalar(
        "SELECT n.name FROM pg_timezone_names n WHERE n.name ~ '^(America|Europe|Africa|Asia|Australia|Pacific)/'
         ORDER BY (now() AT TIME ZONE n.name) + interval '60 days' = (now() + interval '1440 hours') AT TIME ZONE n.name,
                  n.name LIMIT 1",
    )
    .fetch_one(&merchant.books.db)
    .await?;
    cluster().await?.ctl(&["accounts", "set", &merchant.account.id, "--timezone", &zone]).await?;
    for (terms, days) in [("due_on_receipt", 0), ("net_7", 7), ("net_15", 15), ("net_30", 30), ("net_60", 60)] {
        let written = draft(&merchant, &customer, terms).await?;
        let at_once = merchant.api.post(INVOICES, with(owed(&customer, 100), "paymentTerms", terms)).await?;
        for issued in [ok(&ask(&merchant, &written, "issue").await?), created(&at_once)] {
            assert_eq!(issued["paymentTerms"], terms);
            let right: bool = sqlx::query_scalar(
                "SELECT (($1::text::timestamptz AT TIME ZONE $3) + make_interval(days => $4)) AT TIME ZONE $3
                      = $2::text::timestamptz",
            )
            .bind(issued["issuedAt"].as_str())
            .bind(issued["dueAt"].as_str())
            .bind(&zone)
            .bind(days)
            .fetch_one(&merchant.books.db)
            .await?;
            assert!(right, "{terms} in {zone}: {issued}");
        }
    }
    // That it is the account's zone which is asked shows at any time of the year where the zone is none.
    sqlx::query("UPDATE accounts SET timezone = 'Mars/Olympus' WHERE id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    let in_a_week = with(owed(&customer, 100), "paymentTerms", "net_7");
    refused(&merchant.api.post(INVOICES, in_a_week).await?, 500, "api_error");
    Ok(())
}

#[tokio::test]
async fn whatever_it_was_an_invoice_is_voided_for_good() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let paid = merchant.sold(500).await?;
    let pays = format!("status = 'paid', paid_at = now(), amount_paid = amount, payment_id = '{}'", uuid(&paid)?);
    let collected =
        "status = 'scheduled', collect_at = now() + interval '1 day', next_attempt_at = now() + interval '1 day'";
    for (columns, gone) in [
        ("description = 'open'", &[][..]),
        (collected, &["collectAt", "nextAttemptAt"]),
        (&pays, &[]),
        ("collection_exhausted = true", &[]),
    ] {
        let made = id(&invoice(&merchant, &customer).await?)?;
        set(&merchant, &made, columns).await?;
        let before = shown(&merchant, &made).await?;
        let answer = ask(&merchant, &made, "void").await?;
        assert!(ok(&answer)["voidedAt"].is_string());
        let expected = with(gone.iter().fold(before, |body, name| without(body, name)), "status", "voided");
        assert_eq!(without(answer.body.clone(), "voidedAt"), expected, "what was paid and numbered stays so");
        for _ in 0..2 {
            assert_eq!(ok(&ask(&merchant, &made, "void").await?), &answer.body, "a voided one is answered as it is");
        }
        conflict(&ask(&merchant, &made, "issue").await?);
    }
    let written = draft(&merchant, &customer, "net_7").await?;
    let answer = ask(&merchant, &written, "void").await?;
    assert_eq!(ok(&answer)["status"], "voided");
    assert!(answer.body.get("number").is_none(), "a draft never gets one then");
    assert!(answer.body.get("url").is_none(), "nor can it be paid");
    conflict(&ask(&merchant, &written, "issue").await?);
    Ok(())
}

#[tokio::test]
async fn while_a_payment_is_under_way_nothing_is_voided() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let made = id(&invoice(&merchant, &customer).await?)?;
    let payment = merchant.sold(500).await?;
    for under_way in ["processing", "requires_action"] {
        pay(&merchant, &made, &payment, under_way).await?;
        conflict(&ask(&merchant, &made, "void").await?);
        assert_eq!(shown(&merchant, &made).await?["status"], "open");
    }
    let other = id(&invoice(&merchant, &customer).await?)?;
    ok(&ask(&merchant, &other, "void").await?);
    pay(&merchant, &made, &payment, "failed").await?;
    assert_eq!(ok(&ask(&merchant, &made, "void").await?)["status"], "voided");
    Ok(())
}

#[tokio::test]
async fn of_many_that_void_and_issue_at_once_each_does_its_part_once() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for _ in 0..3 {
        let written = draft(&merchant, &customer, "net_7").await?;
        let answers =
            together(20, async |i| ask(&merchant, &written, if i % 2 == 0 { "issue" } else { "void" }).await).await?;
        let (issues, voids): (Vec<_>, Vec<_>) = answers.iter().enumerate().partition(|(i, _)| i % 2 == 0);
        let issued = issues.iter().filter(|(_, answer)| answer.status == 200).count();
        assert!(issued <= 1, "issued {issued} times");
        let last = shown(&merchant, &written).await?;
        assert_eq!(last["status"], "voided");
        assert_eq!(last.get("number").is_some(), issued == 1);
        for (_, answer) in voids {
            assert_eq!(ok(answer), &last, "whoever voids sees the same");
        }
        let told = merchant.books.events(&written).await?;
        let mut told: Vec<_> = told.iter().map(|(kind, _)| kind.as_str()).collect();
        // Each is dated when it was asked for, which may be before its turn.
        told.sort_unstable();
        let expected = ["invoice.issued", "invoice.voided"];
        assert_eq!(told, expected[1 - issued..]);
    }
    Ok(())
}

#[tokio::test]
async fn the_schema_refuses_what_no_invoice_is() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let (made, written) = (id(&invoice(&merchant, &customer).await?)?, draft(&merchant, &customer, "net_7").await?);
    let payment = uuid(&merchant.sold(500).await?)?;
    let foreign = uuid(&stranger.sold(500).await?)?;
    let other = merchant.customer().await?;
    let card = uuid(&id(created(&merchant.save_card(&other, "tok_ok").await?))?)?;
    let paid = "paid_at = now(), amount_paid = amount";
    let pays = format!("payment_id = '{payment}'");
    for (invoice, columns, constraint) in [
        (&made, "number = NULL".to_owned(), "invoices_draft_has_no_number"),
        (&made, "status = 'draft'".to_owned(), "invoices_draft_has_no_number"),
        (&written, "status = 'open'".to_owned(), "invoices_draft_has_no_number"),
        (&written, "number = 7".to_owned(), "invoices_draft_has_no_number"),
        (&made, "due_at = NULL".to_owned(), "invoices_issue_is_whole"),
        (&made, "issued_at = NULL".to_owned(), "invoices_issue_is_whole"),
        (&written, "due_at = now()".to_owned(), "invoices_due_by_date_or_terms"),
        (&written, "payment_terms = NULL".to_owned(), "invoices_due_by_date_or_terms"),
        (&made, format!("status = 'paid', {paid}"), "invoices_payment_is_whole"),
        (&made, format!("status = 'paid', paid_at = now(), {pays}"), "invoices_payment_is_whole"),
        (&made, "amount_paid = 1".to_owned(), "invoices_payment_is_whole"),
        (&made, "status = 'paid'".to_owned(), "invoices_paid_is_paid"),
        (&made, format!("{paid}, {pays}"), "invoices_paid_is_paid"),
        (&made, format!("status = 'paid', {paid}, payment_id = '{foreign}'"), "invoices_payment"),
        (&written, format!("status = 'voided', voided_at = now(), {paid}, {pays}"), "invoices_only_issued_is_paid"),
        (&made, "status = 'voided'".to_owned(), "invoices_voided_at"),
        (&made, "voided_at = now()".to_owned(), "invoices_voided_at"),
        (&made, "status = 'scheduled'".to_owned(), "invoices_scheduled_has_a_date"),
        (&made, "next_attempt_at = now()".to_owned(), "invoices_only_scheduled_is_attempted"),
        (&made, format!("collect_payment_method_id = '{card}'"), "invoices_collect_payment_method"),
        (&made, "amount_tax = 0".to_owned(), "invoices_parts_need_items"),
    ] {
        let refused = set(&merchant, invoice, &columns).await.expect_err(&columns);
        let named = refused.as_database_error().and_then(|error| error.constraint());
        assert_eq!(named, Some(constraint), "{columns}: {refused}");
    }
    // Nor may a payment name what is no invoice of its account.
    for no_invoice in [UNKNOWN, &id(&invoice(&stranger, &stranger.customer().await?).await?)?] {
        let refused =
            pay(&merchant, no_invoice, &merchant.sold(500).await?, "failed").await.expect_err("no such invoice");
        assert!(refused.to_string().contains("payments_invoice"), "{refused}");
    }
    assert_eq!(shown(&merchant, &made).await?["status"], "open");
    Ok(())
}
