//! Invoice states: issued once, voided while no payment is in progress, and consistent by database constraints.

use anyhow::{Context, Result};
use serde_json::json;
use sqlx::AssertSqlSafe;

use super::{INVOICES, UNKNOWN, draft, get_invoice, invoice, minimal, post_action};
use crate::support::{
    Merchant, cluster, concurrently, conflict, created, id, merchant, ok, refused, uuid, with, without,
};

/// Updates columns of an invoice directly.
async fn set(merchant: &Merchant, invoice: &str, columns: &str) -> Result<(), sqlx::Error> {
    let statement = format!("UPDATE invoices SET {columns} WHERE id = $1");
    let id = uuid(invoice).expect("an id");
    sqlx::query(AssertSqlSafe(statement)).bind(id).execute(&merchant.books.db).await.map(drop)
}

/// Attaches a payment with this status to an invoice, directly in the database.
async fn attach_payment(merchant: &Merchant, invoice: &str, payment: &str, status: &str) -> Result<()> {
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
async fn drafts_are_issued_once() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let draft_id = draft(&merchant, &customer, "net_7").await?;
    let before = get_invoice(&merchant, &draft_id).await?;
    assert_eq!((&before["status"], &before["paymentTerms"]), (&json!("draft"), &json!("net_7")));
    for absent in ["number", "issuedAt", "dueAt", "paidAt", "voidedAt", "url", "collectionExhausted"] {
        assert!(before.get(absent).is_none(), "{absent}");
    }
    let response = post_action(&merchant, &draft_id, "issue").await?;
    let issued = ok(&response);
    assert_eq!((&issued["status"], &issued["number"]), (&json!("open"), &json!("INV-000001")));
    assert!(issued["issuedAt"].is_string() && issued["dueAt"].is_string() && issued["url"].is_string(), "{issued}");
    let without_issue_fields = ["issuedAt", "dueAt", "number", "url"].into_iter().fold(issued.clone(), without);
    let expected = with(with(before, "status", "open"), "version", 2);
    assert_eq!(without_issue_fields, expected, "issuing changes nothing else");
    conflict(&post_action(&merchant, &draft_id, "issue").await?);
    assert_eq!(&get_invoice(&merchant, &draft_id).await?, issued);
    conflict(&post_action(&merchant, &id(&invoice(&merchant, &customer).await?)?, "issue").await?);
    Ok(())
}

#[tokio::test]
async fn payment_terms_count_days_in_the_time_zone_of_the_account() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    // A zone that changes its clocks within two months, if there is one, so that not all days have 24 hours.
    let zone: String = sqlx::query_scalar(
        "SELECT n.name FROM pg_timezone_names n WHERE n.name ~ '^(America|Europe|Africa|Asia|Australia|Pacific)/'
         ORDER BY (now() AT TIME ZONE n.name) + interval '60 days' = (now() + interval '1440 hours') AT TIME ZONE n.name,
                  n.name LIMIT 1",
    )
    .fetch_one(&merchant.books.db)
    .await?;
    cluster().await?.ctl(&["accounts", "set", &merchant.account.id, "--timezone", &zone]).await?;
    for (terms, days) in [("due_on_receipt", 0), ("net_7", 7), ("net_15", 15), ("net_30", 30), ("net_60", 60)] {
        let draft_id = draft(&merchant, &customer, terms).await?;
        let issued_on_creation =
            merchant.api.post(INVOICES, with(minimal(&customer, 100), "paymentTerms", terms)).await?;
        for issued in [ok(&post_action(&merchant, &draft_id, "issue").await?), created(&issued_on_creation)] {
            assert_eq!(issued["paymentTerms"], terms);
            let is_correct: bool = sqlx::query_scalar(
                "SELECT (($1::text::timestamptz AT TIME ZONE $3) + make_interval(days => $4)) AT TIME ZONE $3
                      = $2::text::timestamptz",
            )
            .bind(issued["issuedAt"].as_str())
            .bind(issued["dueAt"].as_str())
            .bind(&zone)
            .bind(days)
            .fetch_one(&merchant.books.db)
            .await?;
            assert!(is_correct, "{terms} in {zone}: {issued}");
        }
    }
    // An invalid zone must fail, which proves at any time of the year that the account's zone is used.
    sqlx::query("UPDATE accounts SET timezone = 'Mars/Olympus' WHERE id = $1")
        .bind(merchant.books.account)
        .execute(&merchant.books.db)
        .await?;
    let in_a_week = with(minimal(&customer, 100), "paymentTerms", "net_7");
    refused(&merchant.api.post(INVOICES, in_a_week).await?, 500, "api_error");
    Ok(())
}

#[tokio::test]
async fn invoices_in_any_state_can_be_voided_permanently() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let paid = merchant.charge(500).await?;
    let paid_columns =
        format!("status = 'paid', paid_at = now(), amount_paid = amount, payment_id = '{}'", uuid(&paid)?);
    let scheduled =
        "status = 'scheduled', collect_at = now() + interval '1 day', next_attempt_at = now() + interval '1 day'";
    for (columns, removed) in [
        ("description = 'open'", &[][..]),
        (scheduled, &["collectAt", "nextAttemptAt"]),
        (&paid_columns, &[]),
        ("collection_exhausted = true", &[]),
    ] {
        let made = id(&invoice(&merchant, &customer).await?)?;
        set(&merchant, &made, columns).await?;
        let before = get_invoice(&merchant, &made).await?;
        let response = post_action(&merchant, &made, "void").await?;
        assert!(ok(&response)["voidedAt"].is_string());
        let version = before["version"].as_i64().context("no version")? + 1;
        let expected = removed.iter().fold(with(before, "version", version), |body, name| without(body, name));
        let expected = with(expected, "status", "voided");
        assert_eq!(without(response.body.clone(), "voidedAt"), expected, "the payment and the number are unchanged");
        for _ in 0..2 {
            assert_eq!(
                ok(&post_action(&merchant, &made, "void").await?),
                &response.body,
                "voiding again returns the voided invoice"
            );
        }
        conflict(&post_action(&merchant, &made, "issue").await?);
    }
    let draft_id = draft(&merchant, &customer, "net_7").await?;
    let response = post_action(&merchant, &draft_id, "void").await?;
    assert_eq!(ok(&response)["status"], "voided");
    assert!(response.body.get("number").is_none(), "a voided draft has no number");
    assert!(response.body.get("url").is_none(), "a voided draft has no payment page");
    conflict(&post_action(&merchant, &draft_id, "issue").await?);
    Ok(())
}

#[tokio::test]
async fn invoices_with_a_payment_in_progress_cannot_be_voided() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    let made = id(&invoice(&merchant, &customer).await?)?;
    let payment = merchant.charge(500).await?;
    for in_progress in ["processing", "requires_action"] {
        attach_payment(&merchant, &made, &payment, in_progress).await?;
        conflict(&post_action(&merchant, &made, "void").await?);
        assert_eq!(get_invoice(&merchant, &made).await?["status"], "open");
    }
    let other = id(&invoice(&merchant, &customer).await?)?;
    ok(&post_action(&merchant, &other, "void").await?);
    attach_payment(&merchant, &made, &payment, "failed").await?;
    assert_eq!(ok(&post_action(&merchant, &made, "void").await?)["status"], "voided");
    Ok(())
}

#[tokio::test]
async fn concurrent_voids_and_issues_take_effect_once() -> Result<()> {
    let merchant = merchant().await?;
    let customer = merchant.customer().await?;
    for _ in 0..3 {
        let draft_id = draft(&merchant, &customer, "net_7").await?;
        let responses = concurrently(20, async |i| {
            post_action(&merchant, &draft_id, if i % 2 == 0 { "issue" } else { "void" }).await
        })
        .await?;
        let (issues, voids): (Vec<_>, Vec<_>) = responses.iter().enumerate().partition(|(i, _)| i % 2 == 0);
        let issued = issues.iter().filter(|(_, response)| response.status == 200).count();
        assert!(issued <= 1, "issued {issued} times");
        let last = get_invoice(&merchant, &draft_id).await?;
        assert_eq!(last["status"], "voided");
        assert_eq!(last.get("number").is_some(), issued == 1);
        for (_, response) in voids {
            assert_eq!(ok(response), &last, "every void returns the same invoice");
        }
        let events = merchant.books.events(&draft_id).await?;
        let mut events: Vec<_> = events.iter().map(|(kind, _)| kind.as_str()).collect();
        // An event carries the time of its request, which may be before the request got the row lock.
        events.sort_unstable();
        let expected = ["invoice.issued", "invoice.voided"];
        assert_eq!(events, expected[1 - issued..]);
    }
    Ok(())
}

#[tokio::test]
async fn constraints_reject_inconsistent_invoices() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let customer = merchant.customer().await?;
    let (made, draft_id) = (id(&invoice(&merchant, &customer).await?)?, draft(&merchant, &customer, "net_7").await?);
    let payment = uuid(&merchant.charge(500).await?)?;
    let foreign = uuid(&other_merchant.charge(500).await?)?;
    let other = merchant.customer().await?;
    let card = uuid(&id(created(&merchant.save_card(&other, "tok_ok").await?))?)?;
    let paid = "paid_at = now(), amount_paid = amount";
    let pays = format!("payment_id = '{payment}'");
    for (invoice, columns, constraint) in [
        (&made, "number = NULL".to_owned(), "invoices_draft_has_no_number"),
        (&made, "status = 'draft'".to_owned(), "invoices_draft_has_no_number"),
        (&draft_id, "status = 'open'".to_owned(), "invoices_draft_has_no_number"),
        (&draft_id, "number = 7".to_owned(), "invoices_draft_has_no_number"),
        (&made, "due_at = NULL".to_owned(), "invoices_issue_is_whole"),
        (&made, "issued_at = NULL".to_owned(), "invoices_issue_is_whole"),
        (&draft_id, "due_at = now()".to_owned(), "invoices_due_by_date_or_terms"),
        (&draft_id, "payment_terms = NULL".to_owned(), "invoices_due_by_date_or_terms"),
        (&made, format!("status = 'paid', {paid}"), "invoices_payment_is_whole"),
        (&made, format!("status = 'paid', paid_at = now(), {pays}"), "invoices_payment_is_whole"),
        (&made, "amount_paid = 1".to_owned(), "invoices_payment_is_whole"),
        (&made, "status = 'paid'".to_owned(), "invoices_paid_is_paid"),
        (&made, format!("{paid}, {pays}"), "invoices_paid_is_paid"),
        (&made, format!("status = 'paid', {paid}, payment_id = '{foreign}'"), "invoices_payment"),
        (&draft_id, format!("status = 'voided', voided_at = now(), {paid}, {pays}"), "invoices_only_issued_is_paid"),
        (&made, "status = 'voided'".to_owned(), "invoices_voided_at"),
        (&made, "voided_at = now()".to_owned(), "invoices_voided_at"),
        (&made, "status = 'scheduled'".to_owned(), "invoices_scheduled_has_a_date"),
        (&made, "next_attempt_at = now()".to_owned(), "invoices_only_scheduled_is_attempted"),
        (&made, format!("collect_payment_method_id = '{card}'"), "invoices_collect_payment_method"),
        (&made, "amount_tax = 0".to_owned(), "invoices_parts_need_items"),
    ] {
        let refused = set(&merchant, invoice, &columns).await.expect_err(&columns);
        let violated = refused.as_database_error().and_then(|error| error.constraint());
        assert_eq!(violated, Some(constraint), "{columns}: {refused}");
    }
    // A payment cannot refer to an invoice of another account.
    for not_an_invoice in [UNKNOWN, &id(&invoice(&other_merchant, &other_merchant.customer().await?).await?)?] {
        let refused = attach_payment(&merchant, not_an_invoice, &merchant.charge(500).await?, "failed")
            .await
            .expect_err("no such invoice");
        assert!(refused.to_string().contains("payments_invoice"), "{refused}");
    }
    assert_eq!(get_invoice(&merchant, &made).await?["status"], "open");
    Ok(())
}
