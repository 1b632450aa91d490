//! A provider has done something, its answer is lost, and only a person can find out: what they enter counts as if a worker had
//! heard it.

use anyhow::Result;
use serde_json::json;
use testkit::Cluster;
use tokio::join;

use super::{answers_are_lost, at_provider, listening, nothing_may_arrive, refused, text, the_waiting, waiting};
use crate::support::{Merchant, accepted, cluster, created, eventually, id, merchant, ok, payment, sale};

/// A merchant who loses so many answers.
async fn losing(answers: &str) -> Result<(&'static Cluster, Merchant)> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    answers_are_lost(&merchant, cluster, answers).await?;
    Ok((cluster, merchant))
}

#[tokio::test]
async fn a_charge_that_a_person_found_is_told_to_everybody_who_waits() -> Result<()> {
    let (cluster, merchant) = losing("1").await?;
    let (receiver, _) = listening(&merchant).await?;
    let person = async {
        let rows = waiting(cluster, &merchant, 1).await?;
        let row = &rows[0];
        assert_eq!((&row["amount"], &row["currency"], &row["kind"]), (&1500.into(), &"USD".into(), &"sale".into()));
        assert_eq!((&row["account"], &row["provider"]), (&json!(merchant.account.id), &"mock".into()));
        assert_eq!(row["reference"], row["id"]);
        let (operation, charge) = (text(row, "id"), at_provider(&merchant, &text(row, "reference")).await?);
        let resolve =
            ["operations", "resolve", &operation, "--unverified", "--outcome", "charged", "--provider-ref", &charge];
        let tried = cluster.ctl(&[&resolve[..], &["--dry-run"]].concat()).await?;
        assert_eq!((&tried["changed"], &tried["audit"]), (&false.into(), &json!(null)), "{tried}");
        assert_eq!(waiting(cluster, &merchant, 1).await?.len(), 1, "it was only tried");
        let done = cluster.ctl(&[&["--as", "ada"], &resolve[..]].concat()).await?;
        assert_eq!(done["changed"], true, "{done}");
        let again = cluster.ctl(&resolve).await?;
        assert_eq!(again["changed"], false, "{again}");
        anyhow::Ok((operation, charge))
    };
    // The request that waits is answered by what the person enters.
    let (answer, person) = join!(merchant.pay_once("k", sale(1500)), person);
    let ((operation, charge), answer) = (person?, answer?);
    let paid = created(&answer).clone();
    assert_eq!(paid["status"], "pending_settlement");
    assert_eq!(merchant.pay_once("k", sale(1500)).await?.bytes, answer.bytes, "the same key, the same answer");
    let payment = id(&paid)?;
    merchant.all_agree(&payment, "sale 1500", &["payment.captured"]).await?;
    let heard = receiver.hears("/hooks", 1).await?;
    assert_eq!(heard[0].event()["data"]["object"]["id"], json!(payment));
    merchant.books.audit().await?;

    let listed = cluster.ctl(&["audit", "list", "--account", &merchant.account.id, "--limit", "1"]).await?;
    let record = &listed["audit"][0];
    assert_eq!((&record["actor"], &record["action"]), (&"ada".into(), &"operations.resolve".into()));
    assert_eq!((&record["object"], &record["detail"]["provider_ref"]), (&json!(operation), &json!(charge)));
    assert_eq!(record["detail"]["payment"], json!(payment));
    Ok(())
}

#[tokio::test]
async fn declined_failed_and_a_part_are_what_the_provider_said() -> Result<()> {
    let (cluster, merchant) = losing("3").await?;
    let person = async {
        let rows = waiting(cluster, &merchant, 3).await?;
        for row in &rows {
            let operation = text(row, "id");
            let charge = at_provider(&merchant, &operation).await?;
            let resolve = ["operations", "resolve", &operation, "--unverified", "--outcome"];
            let said = match row["amount"].as_i64() {
                Some(901) => vec!["declined", "--code", "insufficient_funds"],
                Some(902) => vec!["failed", "--reason", "their report has no such reference"],
                _ => vec!["charged", "--provider-ref", &charge, "--amount", "450"],
            };
            if said[0] != "charged" {
                let complaint = refused(cluster, &[&resolve[..], &said].concat()).await?;
                assert!(complaint.contains("may still arrive"), "{complaint}");
                nothing_may_arrive(&merchant, &operation).await?;
            }
            let done = cluster.ctl(&[&resolve[..], &said].concat()).await?;
            assert_eq!(done["changed"], true, "{done}");
        }
        anyhow::Ok(())
    };
    let declined = merchant.api.post("/v1/payments", payment(901, "tok_insufficient"));
    let failed = merchant.pay(902);
    let half = merchant.api.post("/v1/payments", payment(900, "tok_partial"));
    let (declined, failed, half, done) = join!(declined, failed, half, person);
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
async fn what_follows_a_charge_is_entered_too() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let (held, unwanted, sold) = (merchant.hold(1000).await?, merchant.hold(1000).await?, merchant.sold(1000).await?);
    answers_are_lost(&merchant, cluster, "1").await?;
    accepted(&merchant.refund(&sold, Some(300)).await?);
    waiting(cluster, &merchant, 1).await?;
    merchant.mock(cluster, &["--lose-answer", "2"]).await?;
    let person = async {
        for row in waiting(cluster, &merchant, 3).await? {
            let (operation, kind) = (text(&row, "id"), text(&row, "kind"));
            let resolve = ["operations", "resolve", &operation, "--unverified", "--outcome"];
            let done = at_provider(&merchant, &operation).await.unwrap_or_else(|_| format!("void-{operation}"));
            let complaint = refused(cluster, &[&resolve[..], &["charged", "--provider-ref", &done]].concat()).await?;
            assert!(complaint.contains(&format!("a {kind}")), "{complaint}");
            cluster.ctl(&[&resolve[..], &["done", "--provider-ref", &done]].concat()).await?;
        }
        anyhow::Ok(())
    };
    let (captured, voided, done) = join!(merchant.capture(&held, Some(400)), merchant.void(&unwanted), person);
    done?;
    assert_eq!(
        (&ok(&captured?)["status"], &ok(&voided?)["status"]),
        (&"pending_settlement".into(), &"cancelled".into())
    );
    let refunded = merchant.becomes(&sold, "partially_refunded").await?;
    assert_eq!((&refunded["amountRefunded"], &refunded["pendingOperation"]), (&300.into(), &json!(null)));
    merchant.all_agree(&held, "authorize 1000, capture 400", &["payment.authorized", "payment.captured"]).await?;
    merchant.all_agree(&sold, "sale 1000, refund 300", &["payment.captured", "payment.refunded"]).await?;
    Ok(())
}

#[tokio::test]
async fn of_two_who_enter_different_ends_at_once_one_wins() -> Result<()> {
    let (cluster, merchant) = losing("1").await?;
    let person = async {
        let operation = the_waiting(cluster, &merchant).await?;
        nothing_may_arrive(&merchant, &operation).await?;
        let charge = at_provider(&merchant, &operation).await?;
        let resolve = ["operations", "resolve", &operation, "--unverified", "--outcome"];
        let charged = [&resolve[..], &["charged", "--provider-ref", &charge]].concat();
        let other = [&resolve[..], &["charged", "--provider-ref", "another_charge"]].concat();
        let failed = [&resolve[..], &["failed", "--reason", "not there"]].concat();
        let ends = join!(
            cluster.ctl_to_its_end(&charged),
            cluster.ctl_to_its_end(&failed),
            cluster.ctl_to_its_end(&other),
            cluster.ctl_to_its_end(&charged)
        );
        let codes = [ends.0?.code, ends.1?.code, ends.2?.code, ends.3?.code];
        let won = codes.iter().filter(|code| **code == 0).count();
        // Both that say the same may succeed, one of them without a change.
        assert!(won == 1 || (won == 2 && codes[0] == 0 && codes[3] == 0), "{codes:?}");
        anyhow::Ok(())
    };
    let (answer, done) = join!(merchant.pay(700), person);
    done?;
    let payment = merchant.finished(&id(created(&answer?))?).await?;
    let events = merchant.books.events(&id(&payment)?).await?;
    assert!(events.len() <= 1, "{events:?}");
    let (anomalies, records): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM charge_anomalies WHERE account_id = $1),
                (SELECT count(*) FROM audit_log WHERE account_id = $1 AND action = 'operations.resolve')",
    )
    .bind(merchant.books.account)
    .fetch_one(&merchant.books.db)
    .await?;
    assert_eq!((anomalies, records), (0, 1), "whoever lost has written nothing");
    Ok(())
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    let paid = merchant.sold(300).await?;
    let (sold, charge): (uuid::Uuid, String) =
        sqlx::query_as("SELECT id, provider_ref FROM operations WHERE account_id = $1 AND kind = 'sale'")
            .bind(merchant.books.account)
            .fetch_one(&merchant.books.db)
            .await?;
    let unwanted = "INSERT INTO charge_anomalies (id, account_id, payment_id, operation_id, reversal_operation_id, provider_ref,
                                                  amount, currency, created_at)
                    SELECT id, account_id, payment_id, id, id, 'unwanted', 1, 'USD', now() FROM operations WHERE id = $1";
    sqlx::query(unwanted).bind(sold).execute(&merchant.books.db).await?;
    let sold = crate::support::printed("op_", sold);
    answers_are_lost(&merchant, cluster, "1").await?;
    let person = async {
        let operation = the_waiting(cluster, &merchant).await?;
        for (arguments, complaint) in [
            (
                &["op_00000000000000000000000000", "--outcome", "charged", "--provider-ref", "x"][..],
                "no such operation",
            ),
            (&["pay_1", "--outcome", "charged", "--provider-ref", "x"], "not an id"),
            (&[&sold, "--outcome", "charged", "--provider-ref", "x"], "has ended otherwise"),
            (&[&sold, "--outcome", "failed", "--reason", "x"], "has ended otherwise"),
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
            (&[&operation, "--outcome", "done", "--provider-ref", "x"], "no outcome of"),
            (&[&operation, "--outcome", "declined"], "--code"),
            (&[&operation, "--outcome", "failed", "--reason", "seen 4242 4242 4242 4242"], "may still arrive"),
            (&[&operation, "--outcome", "perhaps"], "perhaps"),
        ] {
            let said = refused(cluster, &[&["operations", "resolve"], arguments].concat()).await?;
            assert!(said.contains(complaint), "{arguments:?}: {said}");
        }
        nothing_may_arrive(&merchant, &operation).await?;
        for (arguments, complaint) in [
            (&["--outcome", "failed", "--reason", "seen 4242 4242 4242 4242"][..], "card number"),
            (&["--outcome", "failed", "--reason", " "], "reason"),
            (&["--outcome", "declined", "--code", "no_such"], "soft or hard"),
        ] {
            let said = refused(cluster, &[&["operations", "resolve", &operation], arguments].concat()).await?;
            assert!(said.contains(complaint), "{arguments:?}: {said}");
        }
        assert_eq!(waiting(cluster, &merchant, 1).await?.len(), 1, "nothing was changed");
        let said = [
            "operations",
            "resolve",
            &operation,
            "--unverified",
            "--outcome",
            "failed",
            "--reason",
            "not in their books",
        ];
        cluster.ctl(&said).await.map(drop)
    };
    let (answer, done) = join!(merchant.pay(700), person);
    done?;
    assert_eq!(created(&answer?)["status"], "failed");
    Ok(())
}

#[tokio::test]
async fn what_a_worker_still_asks_for_is_not_for_a_person() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    merchant.mock(cluster, &["--class", "B", "--lose-answer", "1", "--latency-ms", "2000"]).await?;
    let person = async {
        let operation = eventually("an operation that is under way", async || {
            let listed = cluster.ctl(&["operations", "list", "--account", &merchant.account.id]).await?;
            Ok(listed["operations"].as_array().and_then(|rows| rows.first()).map(|row| text(row, "id")))
        });
        let operation = operation.await?;
        let resolve =
            ["operations", "resolve", &operation, "--unverified", "--outcome", "charged", "--provider-ref", "x"];
        let said = refused(cluster, &resolve).await?;
        assert!(said.contains("does not wait for a person") || said.contains("has ended otherwise"), "{said}");
        anyhow::Ok(())
    };
    let (answer, done) = join!(merchant.pay(700), person);
    done?;
    assert_eq!(merchant.finished(&id(created(&answer?))?).await?["status"], "pending_settlement");
    merchant.books.audit().await
}

/// What the mock did under this reference is given back.
async fn is_reversed(merchant: &Merchant, operation: &str) -> Result<()> {
    let reversed = async || {
        let voided = "SELECT voided_at IS NOT NULL FROM mock.transactions WHERE reference = $1";
        let voided = sqlx::query_scalar::<_, bool>(voided).bind(operation).fetch_optional(&merchant.books.db).await?;
        Ok((voided == Some(true)).then_some(()))
    };
    eventually("the unwanted charge to be reversed", reversed).await
}

/// Writes something of the merchant's only operation by hand.
async fn write(merchant: &Merchant, what: &str) -> Result<()> {
    let statement = sqlx::AssertSqlSafe(format!("UPDATE operations SET {what} WHERE account_id = $1"));
    sqlx::query(statement).bind(merchant.books.account).execute(&merchant.books.db).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_asked_for_in_vain_is_ended_by_a_person_who_says_so() -> Result<()> {
    let (cluster, merchant) = losing("1").await?;
    let person = async {
        let operation = the_waiting(cluster, &merchant).await?;
        let resolve = [
            "operations",
            "resolve",
            &operation,
            "--unverified",
            "--outcome",
            "failed",
            "--reason",
            "their account is closed",
        ];
        let stop = [&resolve[..], &["--stop-asking"]].concat();
        let complains = async |arguments: &[&str], complaint: &str| {
            let said = refused(cluster, arguments).await?;
            assert!(said.contains(complaint), "{complaint}: {said}");
            anyhow::Ok(())
        };
        // As if its provider were asked for ever, and told nothing.
        write(&merchant, "next_push_at = now() + interval '1 hour', lease_until = now() + interval '1 hour'").await?;
        complains(&resolve, "does not wait for a person").await?;
        complains(&stop, "a worker has").await?;
        write(&merchant, "lease_until = NULL").await?;
        complains(&stop, "less than an hour ago").await?;
        write(&merchant, "first_sent_at = first_sent_at - interval '1 hour'").await?;
        complains(&stop, "may still arrive").await?;
        nothing_may_arrive(&merchant, &operation).await?;
        complains(&resolve, "does not wait for a person").await?;
        let tried = cluster.ctl(&[&stop[..], &["--dry-run"]].concat()).await?;
        assert_eq!(tried["changed"], false, "{tried}");
        renewed_meanwhile(&merchant, complains(&stop, "or a worker has it")).await?;
        assert_eq!(cluster.ctl(&[&["--as", "ada"], &stop[..]].concat()).await?["changed"], true);
        anyhow::Ok(operation)
    };
    let (answer, operation) = join!(merchant.pay_once("k", sale(1500)), person);
    let (answer, operation) = (answer?, operation?);
    assert_eq!(merchant.finished(&id(created(&answer))?).await?["status"], "failed");
    let listed = cluster.ctl(&["audit", "list", "--account", &merchant.account.id, "--limit", "1"]).await?;
    let record = &listed["audit"][0];
    assert_eq!((&record["actor"], &record["object"]), (&"ada".into(), &json!(operation)));
    assert_eq!(record["detail"]["stopped_asking"], true, "{record}");
    Ok(())
}

/// A worker that hangs hears of a charge after a person has ended the operation that it was to ask about again.
#[tokio::test]
async fn a_late_worker_changes_nothing_of_what_is_asked_for_no_more() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    merchant.mock(cluster, &["--class", "B", "--latency-ms", "7000"]).await?;
    let person = async {
        let listed = async || {
            let listed = cluster.ctl(&["operations", "list", "--account", &merchant.account.id]).await?;
            let row = listed["operations"].as_array().and_then(|rows| rows.first());
            Ok(row.filter(|row| row["state"] == "sending").map(|row| text(row, "id")))
        };
        let operation = eventually("a request under way", listed).await?;
        let asked_for =
            "state = 'unknown', lease_until = now() - interval '1 second', next_push_at = now() + interval '1 hour',
                         first_sent_at = now() - interval '2 hours', last_sent_at = now() - interval '2 hours'";
        write(&merchant, asked_for).await?;
        let said = [
            "operations",
            "resolve",
            &operation,
            "--unverified",
            "--outcome",
            "failed",
            "--reason",
            "closed",
            "--stop-asking",
        ];
        assert_eq!(cluster.ctl(&said).await?["changed"], true);
        merchant.mock(cluster, &["--latency-ms", "0"]).await?;
        anyhow::Ok(operation)
    };
    let (answer, operation) = join!(merchant.pay_once("k", sale(1500)), person);
    let (answer, operation) = (answer?, operation?);
    assert_eq!(created(&answer)["status"], "failed");
    is_reversed(&merchant, &operation).await?;
    assert_eq!(merchant.payment(&id(&answer.body)?).await?["status"], "failed", "as the person has said");
    assert_eq!(merchant.pay_once("k", sale(1500)).await?.bytes, answer.bytes);
    Ok(())
}

/// While somebody is about to end it, a worker begins its lease anew under the same fencing token.
async fn renewed_meanwhile(merchant: &Merchant, ending: impl Future<Output = Result<()>>) -> Result<()> {
    let mut held_up = merchant.books.db.begin().await?;
    let account = merchant.books.account;
    let lock = sqlx::query("SELECT FROM payments WHERE account_id = $1 FOR NO KEY UPDATE");
    lock.bind(account).execute(&mut *held_up).await?;
    let held_by: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *held_up).await?;
    let renew = async {
        eventually("somebody who waits for the payment", async || {
            let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                             AND $1 = ANY (pg_blocking_pids(pid)))";
            let waits = sqlx::query_scalar::<_, bool>(waits).bind(held_by).fetch_one(&merchant.books.db).await?;
            Ok(waits.then_some(()))
        })
        .await?;
        let renew =
            "UPDATE operations SET lease_until = clock_timestamp() + interval '20 seconds' WHERE account_id = $1";
        sqlx::query(renew).bind(account).execute(&mut *held_up).await?;
        held_up.commit().await?;
        anyhow::Ok(())
    };
    let (ended, renewed) = join!(ending, renew);
    renewed?;
    ended?;
    write(merchant, "lease_until = NULL").await
}

/// A worker is slow to hear the answer, and others have taken its operation for one whose answer is lost. A person enters that
/// nothing was done; then the worker hears of a charge after all, which nobody wants by now, and it is reversed.
#[tokio::test]
async fn a_late_worker_finds_what_a_person_has_entered() -> Result<()> {
    let (cluster, merchant) = (cluster().await?, merchant().await?);
    merchant.mock(cluster, &["--class", "C", "--latency-ms", "7000"]).await?;
    let person = async {
        eventually("a request under way", async || Ok((merchant.books.sent().await? == 1).then_some(()))).await?;
        let given_up = "UPDATE operations SET lease_until = now() - interval '1 second', next_push_at = now(),
                            last_sent_at = now() - interval '1 minute' WHERE account_id = $1";
        sqlx::query(given_up).bind(merchant.books.account).execute(&merchant.books.db).await?;
        let operation = the_waiting(cluster, &merchant).await?;
        let said = [
            "operations",
            "resolve",
            &operation,
            "--unverified",
            "--outcome",
            "failed",
            "--reason",
            "not in their books",
        ];
        assert_eq!(cluster.ctl(&said).await?["changed"], true);
        merchant.mock(cluster, &["--latency-ms", "0"]).await?;
        anyhow::Ok(operation)
    };
    let (answer, operation) = join!(merchant.pay_once("k", sale(1500)), person);
    let (answer, operation) = (answer?, operation?);
    assert_eq!(created(&answer)["status"], "failed");
    let payment = id(&answer.body)?;
    is_reversed(&merchant, &operation).await?;
    assert_eq!(merchant.payment(&payment).await?["status"], "failed");
    assert_eq!(merchant.pay_once("k", sale(1500)).await?.bytes, answer.bytes);
    let shown = cluster.ctl(&["payments", "show", &payment]).await?;
    let told = shown["story"].as_array().is_some_and(|story| story.iter().any(|row| row["what"] == "second charge"));
    assert!(told, "{shown:#}");
    let said = shown["verdict"].to_string();
    assert!(said.contains("was given back") && !said.contains("did nothing"), "{said}");

    // Had the provider refused to reverse it, the card would stand charged.
    let refused = "UPDATE operations SET state = 'failed', provider_ref = NULL, failure = 'it has settled'
                   WHERE account_id = $1 AND kind = 'reverse' AND state = 'succeeded'";
    let written = async || {
        let done = sqlx::query(refused).bind(merchant.books.account).execute(&merchant.books.db).await?;
        Ok((done.rows_affected() == 1).then_some(()))
    };
    eventually("the end of the reversal", written).await?;
    let said = cluster.ctl(&["payments", "why", &payment]).await?["verdict"].to_string();
    let (first, second) = ("of 1500 USD was not given back: it has settled", "stands charged");
    assert!(said.contains(first) && said.contains(second) && !said.contains("did nothing"), "{said}");
    Ok(())
}
