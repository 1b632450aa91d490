//! Disputed money in a provider's statement is compared with our disputes, in both directions.

use anyhow::Result;
use serde_json::Value;

use super::differences::Setup;
use crate::support::{created, eventually, id, ids, payment, uuid};

const LOST: &str = "tok_disputed";
const WON: &str = "tok_disputed_won";
/// The status of a charge by another card shows no disputes.
const BY_ANOTHER_CARD: &str = "UPDATE mock.disputes SET nature = 'tok_ok'
                               WHERE account = (SELECT id FROM provider_accounts WHERE account_id = $1)";

/// Disputes of these payments that were decided and compared.
async fn decided(setup: &Setup, payments: &[(i64, &str)]) -> Result<Vec<String>> {
    let merchant = setup.merchant();
    let mut ids = Vec::new();
    for (amount, token) in payments {
        ids.push(id(created(&merchant.api.post("/v1/payments", payment(*amount, token)).await?))?);
    }
    for step in ["2 minutes", "11 days"] {
        merchant.advance(step).await?;
        reconcile(setup).await?;
        assert_eq!(setup.kinds().await?, [""; 0], "the books agree after {step}");
    }
    Ok(ids)
}

/// Compares everything, with disputes old enough to be compared.
async fn reconcile(setup: &Setup) -> Result<()> {
    let opened = "UPDATE provider_accounts SET created_at = created_at - interval '5 minutes' WHERE account_id = $1";
    setup.execute(opened).await?;
    setup.execute("UPDATE disputes SET written_at = written_at - interval '5 minutes' WHERE account_id = $1").await?;
    let booked = "UPDATE mock.disputes
                  SET booked_at = booked_at - interval '5 minutes', reinstated_at = reinstated_at - interval '5 minutes'
                  WHERE account = (SELECT id FROM provider_accounts WHERE account_id = $1)";
    setup.execute(booked).await?;
    setup.reconcile().await
}

/// Disputes that were decided and compared, of which our books lack two, and that another one was won.
async fn forgotten(setup: &Setup) -> Result<Vec<String>> {
    let payments = decided(setup, &[(100, LOST), (101, WON), (102, WON)]).await?;
    setup.execute("DELETE FROM disputes WHERE amount IN (100, 101) AND account_id = $1").await?;
    let lost = "UPDATE disputes SET status = 'lost', reinstatement_ref = NULL WHERE amount = 102 AND account_id = $1";
    setup.execute(lost).await?;
    Ok(payments)
}

#[tokio::test]
async fn disputed_money_that_no_inquiry_records_is_a_difference_once() -> Result<()> {
    let setup = Setup::at_the_mock().await?;
    let payments = forgotten(&setup).await?;
    setup.execute(BY_ANOTHER_CARD).await?;
    for _ in 0..2 {
        reconcile(&setup).await?;
        let withdrawn = ["missing_with_us dispute_withdrawn"; 2];
        let reinstated = ["missing_with_us dispute_reinstated"; 2];
        assert_eq!(setup.kinds().await?, [reinstated, withdrawn].concat());
    }
    setup.wait_for_metric("missing_with_us").await?;
    let rows = setup.listed(&[]).await?;
    let of = |kind: &str, payment: &str| {
        rows.iter().find(|row| row["kind"] == kind && row["payment"] == payment).cloned().unwrap_or_default()
    };
    let lost = of("dispute_withdrawn", &payments[0]);
    assert_eq!((&lost["theirs"]["amount"], &lost["ours"]), (&100.into(), &Value::Null), "{rows:?}");
    assert_eq!(of("dispute_reinstated", &payments[2])["theirs"]["amount"], 102, "{rows:?}");
    Ok(())
}

#[tokio::test]
async fn disputed_money_that_the_provider_lacks_or_has_in_another_amount_is_recorded() -> Result<()> {
    let setup = Setup::at_the_mock().await?;
    let payments = decided(&setup, &[(100, LOST), (101, WON), (102, LOST), (103, LOST), (104, WON)]).await?;
    for change in [
        "DELETE FROM mock.disputes
         WHERE amount = 100 AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)",
        "UPDATE mock.disputes SET reinstated_at = NULL
         WHERE amount = 101 AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)",
        "UPDATE disputes SET amount = 99 WHERE amount = 103 AND account_id = $1",
        "UPDATE mock.disputes SET amount = amount + 1
         WHERE amount = 104 AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)",
    ] {
        setup.execute(change).await?;
    }
    reconcile(&setup).await?;
    let amount = ["amount dispute_reinstated", "amount dispute_withdrawn", "amount dispute_withdrawn"];
    let missing = ["missing_at_provider dispute_reinstated", "missing_at_provider dispute_withdrawn"];
    assert_eq!(setup.kinds().await?, [&amount[..], &missing].concat());
    let rows = setup.listed(&[]).await?;
    let lost = rows.iter().find(|row| row["payment"] == payments[0].as_str()).cloned().unwrap_or_default();
    assert_eq!((&lost["kind"], &lost["ours"]["amount"]), (&"dispute_withdrawn".into(), &100.into()), "{lost}");
    assert!(lost["ours"]["dispute"].as_str().is_some_and(|dispute| dispute.starts_with("dp_")), "{lost}");
    let found = "SELECT ours->>'amount' || ' ' || (theirs->>'amount') FROM book_differences
                 WHERE payment_id = $1 ORDER BY entry";
    let db = &setup.merchant().books.db;
    let sides: Vec<String> = sqlx::query_scalar(found).bind(uuid(&payments[3])?).fetch_all(db).await?;
    assert_eq!(sides, ["99 103"]);
    // A withdrawal that is in no statement that is read is looked up.
    let long_ago = "UPDATE mock.disputes SET amount = 106, booked_at = booked_at - interval '1 year'
                    WHERE amount = 102 AND account = (SELECT id FROM provider_accounts WHERE account_id = $1)";
    setup.execute(long_ago).await?;
    reconcile(&setup).await?;
    assert_eq!(setup.kinds().await?.len(), 6);
    Ok(())
}

/// Nothing else would ask about a settled payment. The difference ends once the inquiry has recorded the dispute.
#[tokio::test]
async fn disputed_money_that_is_read_late_is_inquired_about() -> Result<()> {
    let setup = Setup::at_the_mock().await?;
    let payments = forgotten(&setup).await?;
    reconcile(&setup).await?;
    let listed = async |status: &str| {
        Ok::<_, anyhow::Error>(ids(&setup.merchant().api.get(&format!("/v1/disputes?status={status}")).await?).len())
    };
    eventually("the inquiries", async || Ok(((listed("lost").await?, listed("won").await?) == (1, 2)).then_some(())))
        .await?;
    for (payment, withdrawn) in payments.iter().zip([100, 0, 0]) {
        assert_eq!(setup.merchant().payment(payment).await?["amountDisputed"], withdrawn);
    }
    reconcile(&setup).await?;
    assert_eq!(setup.kinds().await?, [""; 0], "the books agree");
    let ended = setup.listed(&["--all"]).await?;
    assert_eq!(ended.len(), 4, "{ended:?}");
    assert!(ended.iter().all(|row| row["resolution"] == "The dispute was recorded later."), "{ended:?}");
    Ok(())
}

/// Another amount was recorded than the statement shows.
#[tokio::test]
async fn a_difference_does_not_end_with_a_dispute_of_another_amount() -> Result<()> {
    let setup = Setup::at_the_mock().await?;
    decided(&setup, &[(100, LOST)]).await?;
    setup.execute("UPDATE disputes SET provider_ref = 'renamed' WHERE account_id = $1").await?;
    setup.execute(BY_ANOTHER_CARD).await?;
    reconcile(&setup).await?;
    let named = "UPDATE disputes d SET amount = 99, provider_ref = m.id FROM mock.disputes m
                 WHERE m.account = d.provider_account_id AND d.account_id = $1";
    setup.execute(named).await?;
    reconcile(&setup).await?;
    assert!(setup.kinds().await?.contains(&"missing_with_us dispute_withdrawn".to_owned()));
    setup.execute("UPDATE disputes SET amount = 100 WHERE account_id = $1").await?;
    reconcile(&setup).await?;
    assert!(!setup.kinds().await?.contains(&"missing_with_us dispute_withdrawn".to_owned()));
    Ok(())
}

/// It is no difference yet: an inquiry records it.
#[tokio::test]
async fn disputed_money_that_was_just_moved_is_inquired_about() -> Result<()> {
    let setup = Setup::at_the_mock().await?;
    decided(&setup, &[(100, LOST)]).await?;
    setup.execute("DELETE FROM disputes WHERE account_id = $1").await?;
    let just_moved = "UPDATE mock.disputes SET booked_at = clock_timestamp()
                      WHERE account = (SELECT id FROM provider_accounts WHERE account_id = $1)";
    setup.execute(just_moved).await?;
    setup.reconcile().await?;
    assert_eq!(setup.kinds().await?, [""; 0]);
    eventually("the inquiry", async || {
        let listed = ids(&setup.merchant().api.get("/v1/disputes").await?);
        Ok((listed.len() == 1).then_some(()))
    })
    .await?;
    reconcile(&setup).await?;
    assert_eq!(setup.kinds().await?, [""; 0], "the books agree");
    Ok(())
}
