//! Manual resolution: the provider's response is lost, and an operator enters the outcome. It takes effect like a
//! response that a worker received.

use anyhow::Result;
use serde_json::json;
use testkit::Cluster;
use tokio::join;

use super::{
    backdate_last_request, ctl_error, lose_responses, manual_review, manual_reviews, provider_ref, resolve_as_failed,
    text, webhook_receiver,
};
use crate::support::{Merchant, accepted, cluster, created, eventually, id, merchant, ok, payment, sale};

/// A merchant whose provider loses this many responses.
async fn merchant_losing_responses(count: &str) -> Result<(&'static Cluster, Merchant)> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    lose_responses(&merchant, cluster, count).await?;
    Ok((cluster, merchant))
}

#[tokio::test]
async fn resolved_charges_reach_the_request_webhooks_and_audit_log() -> Result<()> {
    let (cluster, merchant) = merchant_losing_responses("1").await?;
    let (receiver, _) = webhook_receiver(&merchant).await?;
    let review = async {
        let rows = manual_reviews(cluster, &merchant, 1).await?;
        let row = &rows[0];
        assert_eq!((&row["amount"], &row["currency"], &row["kind"]), (&1500.into(), &"USD".into(), &"sale".into()));
        assert_eq!((&row["account"], &row["provider"]), (&json!(merchant.account.id), &"mock".into()));
        assert_eq!(row["reference"], row["id"]);
        let (operation, charge) = (text(row, "id"), provider_ref(&merchant, &text(row, "reference")).await?);
        let resolve =
            ["operations", "resolve", &operation, "--unverified", "--outcome", "charged", "--provider-ref", &charge];
        let dry_run = cluster.ctl(&[&resolve[..], &["--dry-run"]].concat()).await?;
        assert_eq!((&dry_run["changed"], &dry_run["audit"]), (&false.into(), &json!(null)), "{dry_run}");
        assert_eq!(manual_reviews(cluster, &merchant, 1).await?.len(), 1, "a dry run changes nothing");
        let done = cluster.ctl(&[&["--as", "ada"], &resolve[..]].concat()).await?;
        assert_eq!(done["changed"], true, "{done}");
        let again = cluster.ctl(&resolve).await?;
        assert_eq!(again["changed"], false, "{again}");
        anyhow::Ok((operation, charge))
    };
    // The waiting request returns the outcome that the operator enters.
    let (response, review) = join!(merchant.pay_with_key("k", sale(1500)), review);
    let ((operation, charge), response) = (review?, response?);
    let paid = created(&response).clone();
    assert_eq!(paid["status"], "pending_settlement");
    assert_eq!(
        merchant.pay_with_key("k", sale(1500)).await?.bytes,
        response.bytes,
        "the same key returns the same response"
    );
    let payment = id(&paid)?;
    merchant.assert_consistent(&payment, "sale 1500", &["payment.captured"]).await?;
    let webhooks = receiver.wait_for_requests("/hooks", 1).await?;
    assert_eq!(webhooks[0].event()["data"]["object"]["id"], json!(payment));
    merchant.books.audit().await?;

    let listed = cluster.ctl(&["audit", "list", "--account", &merchant.account.id, "--limit", "1"]).await?;
    let record = &listed["audit"][0];
    assert_eq!((&record["actor"], &record["action"]), (&"ada".into(), &"operations.resolve".into()));
    assert_eq!((&record["object"], &record["detail"]["provider_ref"]), (&json!(operation), &json!(charge)));
    assert_eq!(record["detail"]["payment"], json!(payment));
    Ok(())
}

#[tokio::test]
async fn operations_can_be_resolved_as_declined_failed_or_partial() -> Result<()> {
    let (cluster, merchant) = merchant_losing_responses("3").await?;
    let review = async {
        let rows = manual_reviews(cluster, &merchant, 3).await?;
        for row in &rows {
            let operation = text(row, "id");
            let charge = provider_ref(&merchant, &operation).await?;
            let resolve = ["operations", "resolve", &operation, "--unverified", "--outcome"];
            let outcome = match row["amount"].as_i64() {
                Some(901) => vec!["declined", "--code", "insufficient_funds"],
                Some(902) => vec!["failed", "--reason", "their report has no such reference"],
                _ => vec!["charged", "--provider-ref", &charge, "--amount", "450"],
            };
            if outcome[0] != "charged" {
                let stderr = ctl_error(cluster, &[&resolve[..], &outcome].concat()).await?;
                assert!(stderr.contains("may still arrive"), "{stderr}");
                backdate_last_request(&merchant, &operation).await?;
            }
            let done = cluster.ctl(&[&resolve[..], &outcome].concat()).await?;
            assert_eq!(done["changed"], true, "{done}");
        }
        anyhow::Ok(())
    };
    let declined = merchant.api.post("/v1/payments", payment(901, "tok_insufficient"));
    let failed = merchant.pay(902);
    let half = merchant.api.post("/v1/payments", payment(900, "tok_partial"));
    let (declined, failed, half, done) = join!(declined, failed, half, review);
    done?;
    let declined = created(&declined?).clone();
    assert_eq!((&declined["status"], &declined["declineCode"]), (&"declined".into(), &"insufficient_funds".into()));
    assert_eq!(created(&failed?)["status"], "failed");
    let records = cluster.ctl(&["audit", "list", "--account", &merchant.account.id]).await?;
    let types: Vec<_> =
        records["audit"].as_array().into_iter().flatten().map(|row| &row["detail"]["decline_type"]).collect();
    assert!(types.contains(&&json!("soft")), "{records}");
    let half = created(&half?).clone();
    assert_eq!((&half["amount"], &half["amountRequested"]), (&450.into(), &900.into()), "{half}");
    Ok(())
}

#[tokio::test]
async fn captures_voids_and_refunds_can_be_resolved() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (held, to_void, sold) = (merchant.hold(1000).await?, merchant.hold(1000).await?, merchant.charge(1000).await?);
    lose_responses(&merchant, cluster, "1").await?;
    accepted(&merchant.refund(&sold, Some(300)).await?);
    manual_reviews(cluster, &merchant, 1).await?;
    merchant.mock(cluster, &["--lose-responses", "2"]).await?;
    let review = async {
        for row in manual_reviews(cluster, &merchant, 3).await? {
            let (operation, kind) = (text(&row, "id"), text(&row, "kind"));
            let resolve = ["operations", "resolve", &operation, "--unverified", "--outcome"];
            let reference = provider_ref(&merchant, &operation).await.unwrap_or_else(|_| format!("void-{operation}"));
            let stderr =
                ctl_error(cluster, &[&resolve[..], &["charged", "--provider-ref", &reference]].concat()).await?;
            assert!(stderr.contains(&format!("a {kind}")), "{stderr}");
            cluster.ctl(&[&resolve[..], &["done", "--provider-ref", &reference]].concat()).await?;
        }
        anyhow::Ok(())
    };
    let (captured, voided, done) = join!(merchant.capture(&held, Some(400)), merchant.void(&to_void), review);
    done?;
    assert_eq!(
        (&ok(&captured?)["status"], &ok(&voided?)["status"]),
        (&"pending_settlement".into(), &"cancelled".into())
    );
    let refunded = merchant.wait_for_status(&sold, "partially_refunded").await?;
    assert_eq!((&refunded["amountRefunded"], &refunded["pendingOperation"]), (&300.into(), &json!(null)));
    merchant
        .assert_consistent(&held, "authorize 1000, capture 400", &["payment.authorized", "payment.captured"])
        .await?;
    merchant.assert_consistent(&sold, "sale 1000, refund 300", &["payment.captured", "payment.refunded"]).await?;
    Ok(())
}

#[tokio::test]
async fn concurrent_conflicting_resolutions_take_effect_once() -> Result<()> {
    let (cluster, merchant) = merchant_losing_responses("1").await?;
    let review = async {
        let operation = manual_review(cluster, &merchant).await?;
        backdate_last_request(&merchant, &operation).await?;
        let charge = provider_ref(&merchant, &operation).await?;
        let resolve = ["operations", "resolve", &operation, "--unverified", "--outcome"];
        let charged = [&resolve[..], &["charged", "--provider-ref", &charge]].concat();
        let other = [&resolve[..], &["charged", "--provider-ref", "another_charge"]].concat();
        let failed = [&resolve[..], &["failed", "--reason", "not there"]].concat();
        let results = join!(
            cluster.ctl_output(&charged),
            cluster.ctl_output(&failed),
            cluster.ctl_output(&other),
            cluster.ctl_output(&charged)
        );
        let codes = [results.0?.code, results.1?.code, results.2?.code, results.3?.code];
        let succeeded = codes.iter().filter(|code| **code == 0).count();
        // Both equal resolutions may succeed, one of them without a change.
        assert!(succeeded == 1 || (succeeded == 2 && codes[0] == 0 && codes[3] == 0), "{codes:?}");
        anyhow::Ok(())
    };
    let (response, done) = join!(merchant.pay(700), review);
    done?;
    let payment = merchant.wait_until_finished(&id(created(&response?))?).await?;
    let events = merchant.books.events(&id(&payment)?).await?;
    assert!(events.len() <= 1, "{events:?}");
    let (anomalies, records): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM charge_anomalies WHERE account_id = $1),
                (SELECT count(*) FROM audit_log WHERE account_id = $1 AND action = 'operations.resolve')",
    )
    .bind(merchant.books.account)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!((anomalies, records), (0, 1), "the losing resolution wrote nothing");
    Ok(())
}

#[tokio::test]
async fn invalid_resolutions_are_rejected() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let paid = merchant.charge(300).await?;
    let (operation, charge): (uuid::Uuid, String) =
        sqlx::query_as("SELECT id, provider_ref FROM operations WHERE account_id = $1 AND kind = 'sale'")
            .bind(merchant.books.account)
            .fetch_one(&merchant.books.db)
            .await?;
    let anomaly = "INSERT INTO charge_anomalies (id, account_id, payment_id, operation_id, reversal_operation_id, provider_ref,
                                                  amount, currency, created_at)
                    SELECT id, account_id, payment_id, id, id, 'unwanted', 1, 'USD', now() FROM operations WHERE id = $1";
    sqlx::query(anomaly).bind(operation).execute(&merchant.books.db).await?;
    let finished = crate::support::api_id("op_", operation);
    lose_responses(&merchant, cluster, "1").await?;
    let review = async {
        let operation = manual_review(cluster, &merchant).await?;
        for (arguments, expected) in [
            (
                &["op_00000000000000000000000000", "--outcome", "charged", "--provider-ref", "x"][..],
                "no such operation",
            ),
            (&["pay_1", "--outcome", "charged", "--provider-ref", "x"], "not an id"),
            (&[&finished, "--outcome", "charged", "--provider-ref", "x"], "has ended otherwise"),
            (&[&finished, "--outcome", "failed", "--reason", "x"], "has ended otherwise"),
            (&[&operation, "--outcome", "charged"], "--provider-ref"),
            (&[&operation, "--outcome", "charged", "--provider-ref", &charge], &format!("is the charge of {paid}")),
            (
                &[&operation, "--outcome", "charged", "--provider-ref", "unwanted"],
                &format!("is a second charge of {paid}"),
            ),
            (&[&operation, "--outcome", "charged", "--provider-ref", ""], "provider-ref"),
            (&[&operation, "--outcome", "charged", "--provider-ref", "a b"], "provider-ref"),
            (&[&operation, "--outcome", "charged", "--provider-ref", "4242424242424242"], "card number"),
            (&[&operation, "--outcome", "charged", "--provider-ref", "x", "--amount", "0"], "amount"),
            (&[&operation, "--outcome", "charged", "--provider-ref", "x", "--amount", "701"], "amount"),
            (&[&operation, "--outcome", "charged", "--provider-ref", "x", "--reason", "y"], "reason"),
            (&[&operation, "--outcome", "done", "--provider-ref", "x"], "not a possible outcome of"),
            (&[&operation, "--outcome", "declined"], "--code"),
            (&[&operation, "--outcome", "failed", "--reason", "seen 4242 4242 4242 4242"], "may still arrive"),
            (&[&operation, "--outcome", "perhaps"], "perhaps"),
        ] {
            let stderr = ctl_error(cluster, &[&["operations", "resolve"], arguments].concat()).await?;
            assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        }
        backdate_last_request(&merchant, &operation).await?;
        for (arguments, expected) in [
            (&["--outcome", "failed", "--reason", "seen 4242 4242 4242 4242"][..], "card number"),
            (&["--outcome", "failed", "--reason", " "], "reason"),
            (&["--outcome", "declined", "--code", "no_such"], "soft or hard"),
        ] {
            let stderr = ctl_error(cluster, &[&["operations", "resolve", &operation], arguments].concat()).await?;
            assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        }
        assert_eq!(manual_reviews(cluster, &merchant, 1).await?.len(), 1, "rejected resolutions change nothing");
        let arguments = resolve_as_failed(&operation, "not in their books");
        cluster.ctl(&arguments).await.map(drop)
    };
    let (response, done) = join!(merchant.pay(700), review);
    done?;
    assert_eq!(created(&response?)["status"], "failed");
    Ok(())
}

#[tokio::test]
async fn operations_still_polled_by_a_worker_cannot_be_resolved() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    merchant.mock(cluster, &["--class", "B", "--lose-responses", "1", "--latency-ms", "2000"]).await?;
    let review = async {
        let operation = eventually("an operation in progress", async || {
            let listed = cluster.ctl(&["operations", "list", "--account", &merchant.account.id]).await?;
            Ok(listed["operations"].as_array().and_then(|rows| rows.first()).map(|row| text(row, "id")))
        });
        let operation = operation.await?;
        let resolve =
            ["operations", "resolve", &operation, "--unverified", "--outcome", "charged", "--provider-ref", "x"];
        let stderr = ctl_error(cluster, &resolve).await?;
        assert!(stderr.contains("does not need manual review") || stderr.contains("has ended otherwise"), "{stderr}");
        anyhow::Ok(())
    };
    let (response, done) = join!(merchant.pay(700), review);
    done?;
    assert_eq!(merchant.wait_until_finished(&id(created(&response?))?).await?["status"], "pending_settlement");
    merchant.books.audit().await
}

/// Waits until the mock's transaction with this reference is voided.
async fn wait_until_reversed(merchant: &Merchant, operation: &str) -> Result<()> {
    let reversed = async || {
        let voided = "SELECT voided_at IS NOT NULL FROM mock.transactions WHERE reference = $1";
        let voided = sqlx::query_scalar::<_, bool>(voided).bind(operation).fetch_optional(&merchant.books.db).await?;
        Ok((voided == Some(true)).then_some(()))
    };
    eventually("the unwanted charge to be reversed", reversed).await
}

/// Updates columns of the merchant's only operation directly.
async fn update_operation(merchant: &Merchant, columns: &str) -> Result<()> {
    let statement = sqlx::AssertSqlSafe(format!("UPDATE operations SET {columns} WHERE account_id = $1"));
    sqlx::query(statement).bind(merchant.books.account).execute(&merchant.books.db).await?;
    Ok(())
}

#[tokio::test]
async fn operations_polled_without_result_can_be_ended_with_stop_asking() -> Result<()> {
    let (cluster, merchant) = merchant_losing_responses("1").await?;
    let review = async {
        let operation = manual_review(cluster, &merchant).await?;
        let resolve = resolve_as_failed(&operation, "their account is closed");
        let stop = [&resolve[..], &["--stop-asking"]].concat();
        let fails_with = async |arguments: &[&str], expected: &str| {
            let stderr = ctl_error(cluster, arguments).await?;
            assert!(stderr.contains(expected), "{expected}: {stderr}");
            anyhow::Ok(())
        };
        // As if a worker polled the provider forever without a response.
        update_operation(
            &merchant,
            "next_push_at = now() + interval '1 hour', lease_until = now() + interval '1 hour'",
        )
        .await?;
        fails_with(&resolve, "does not need manual review").await?;
        fails_with(&stop, "a worker currently has").await?;
        update_operation(&merchant, "lease_until = NULL").await?;
        fails_with(&stop, "less than an hour ago").await?;
        update_operation(&merchant, "first_sent_at = first_sent_at - interval '1 hour'").await?;
        fails_with(&stop, "may still arrive").await?;
        backdate_last_request(&merchant, &operation).await?;
        fails_with(&resolve, "does not need manual review").await?;
        let dry_run = cluster.ctl(&[&stop[..], &["--dry-run"]].concat()).await?;
        assert_eq!(dry_run["changed"], false, "{dry_run}");
        with_lease_renewed_during(&merchant, fails_with(&stop, "or a worker has it")).await?;
        assert_eq!(cluster.ctl(&[&["--as", "ada"], &stop[..]].concat()).await?["changed"], true);
        anyhow::Ok(operation)
    };
    let (response, operation) = join!(merchant.pay_with_key("k", sale(1500)), review);
    let (response, operation) = (response?, operation?);
    assert_eq!(merchant.wait_until_finished(&id(created(&response))?).await?["status"], "failed");
    let listed = cluster.ctl(&["audit", "list", "--account", &merchant.account.id, "--limit", "1"]).await?;
    let record = &listed["audit"][0];
    assert_eq!((&record["actor"], &record["object"]), (&"ada".into(), &json!(operation)));
    assert_eq!(record["detail"]["stopped_asking"], true, "{record}");
    Ok(())
}

/// A worker that hung receives a charge after an operator ended its operation, which was due to be polled again.
#[tokio::test]
async fn late_outcomes_do_not_change_ended_operations() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    merchant.mock(cluster, &["--class", "B", "--latency-ms", "8500"]).await?;
    let review = async {
        let listed = async || {
            let listed = cluster.ctl(&["operations", "list", "--account", &merchant.account.id]).await?;
            let row = listed["operations"].as_array().and_then(|rows| rows.first());
            Ok(row.filter(|row| row["state"] == "sending").map(|row| text(row, "id")))
        };
        let operation = eventually("a request in flight", listed).await?;
        let due_for_polling =
            "state = 'unknown', lease_until = now() - interval '1 second', next_push_at = now() + interval '1 hour',
                         first_sent_at = now() - interval '2 hours', last_sent_at = now() - interval '2 hours'";
        update_operation(&merchant, due_for_polling).await?;
        let arguments = [&resolve_as_failed(&operation, "closed")[..], &["--stop-asking"]].concat();
        assert_eq!(cluster.ctl(&arguments).await?["changed"], true);
        merchant.mock(cluster, &["--latency-ms", "0"]).await?;
        anyhow::Ok(operation)
    };
    let (response, operation) = join!(merchant.pay_with_key("k", sale(1500)), review);
    let (response, operation) = (response?, operation?);
    assert_eq!(created(&response)["status"], "failed");
    wait_until_reversed(&merchant, &operation).await?;
    assert_eq!(merchant.payment(&id(&response.body)?).await?["status"], "failed", "as the operator entered");
    assert_eq!(merchant.pay_with_key("k", sale(1500)).await?.bytes, response.bytes);
    Ok(())
}

/// Runs `ending` while a worker renews its lease with the same fencing token, so that `ending` sees the renewed lease.
async fn with_lease_renewed_during(merchant: &Merchant, ending: impl Future<Output = Result<()>>) -> Result<()> {
    let mut transaction = merchant.books.db.begin().await?;
    let account = merchant.books.account;
    let lock = sqlx::query("SELECT FROM payments WHERE account_id = $1 FOR NO KEY UPDATE");
    lock.bind(account).execute(&mut *transaction).await?;
    let blocking_pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *transaction).await?;
    let renew = async {
        eventually("a session that waits for the payment", async || {
            let blocked = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                             AND $1 = ANY (pg_blocking_pids(pid)))";
            let blocked =
                sqlx::query_scalar::<_, bool>(blocked).bind(blocking_pid).fetch_one(&merchant.books.db).await?;
            Ok(blocked.then_some(()))
        })
        .await?;
        let renew =
            "UPDATE operations SET lease_until = clock_timestamp() + interval '20 seconds' WHERE account_id = $1";
        sqlx::query(renew).bind(account).execute(&mut *transaction).await?;
        transaction.commit().await?;
        anyhow::Ok(())
    };
    let (ended, renewed) = join!(ending, renew);
    renewed?;
    ended?;
    update_operation(merchant, "lease_until = NULL").await
}

/// A worker receives its response late: its lease expired, and an operator resolved the operation as failed. The worker
/// then reports a charge, which is reversed.
#[tokio::test]
async fn late_charges_after_a_manual_resolution_are_reversed() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    merchant.mock(cluster, &["--class", "C", "--latency-ms", "8500"]).await?;
    let review = async {
        eventually("a request in flight", async || Ok((merchant.books.in_flight().await? == 1).then_some(()))).await?;
        let lease_expired = "UPDATE operations SET lease_until = now() - interval '1 second', next_push_at = now(),
                            last_sent_at = now() - interval '1 minute' WHERE account_id = $1";
        sqlx::query(lease_expired).bind(merchant.books.account).execute(&merchant.books.db).await?;
        let operation = manual_review(cluster, &merchant).await?;
        let arguments = resolve_as_failed(&operation, "not in their books");
        assert_eq!(cluster.ctl(&arguments).await?["changed"], true);
        merchant.mock(cluster, &["--latency-ms", "0"]).await?;
        anyhow::Ok(operation)
    };
    let (response, operation) = join!(merchant.pay_with_key("k", sale(1500)), review);
    let (response, operation) = (response?, operation?);
    assert_eq!(created(&response)["status"], "failed");
    let payment = id(&response.body)?;
    wait_until_reversed(&merchant, &operation).await?;
    assert_eq!(merchant.payment(&payment).await?["status"], "failed");
    assert_eq!(merchant.pay_with_key("k", sale(1500)).await?.bytes, response.bytes);
    let shown = cluster.ctl(&["payments", "show", &payment]).await?;
    let has_second_charge =
        shown["story"].as_array().is_some_and(|timeline| timeline.iter().any(|row| row["what"] == "second charge"));
    assert!(has_second_charge, "{shown:#}");
    let verdict = shown["verdict"].to_string();
    assert!(verdict.contains("was reversed") && !verdict.contains("without a charge"), "{verdict}");

    // If the provider refuses the reversal, the verdict says that the card remains charged.
    let refuse_reversal = "UPDATE operations SET state = 'failed', provider_ref = NULL, failure = 'it has settled'
                   WHERE account_id = $1 AND kind = 'reverse' AND state = 'succeeded'";
    let written = async || {
        let done = sqlx::query(refuse_reversal).bind(merchant.books.account).execute(&merchant.books.db).await?;
        Ok((done.rows_affected() == 1).then_some(()))
    };
    eventually("the end of the reversal", written).await?;
    let verdict = cluster.ctl(&["payments", "why", &payment]).await?["verdict"].to_string();
    let (first, second) = ("of 1500 USD was not reversed: it has settled", "remains charged");
    assert!(verdict.contains(first) && verdict.contains(second) && !verdict.contains("without a charge"), "{verdict}");
    Ok(())
}
