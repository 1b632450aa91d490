//! The filters of the delivery list: validation, and cursors.

use anyhow::Result;

use super::{DELIVERIES, Event, endpoint, insert_finished, insert_pending, merchant};
use crate::support::{ids, invalid, not_found, ok};

#[tokio::test]
async fn cursors_must_match_the_filters() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::create(&merchant).await?;
    let (one, other) = (endpoint(&merchant).await?, endpoint(&merchant).await?);
    let waiting = insert_pending(&merchant, &one, &event).await?;
    let succeeded = insert_finished(&merchant, &one, &event, "succeeded").await?;
    let failed = insert_finished(&merchant, &one, &event, "failed").await?;
    // A finished delivery may have been pending when its page was read; a final status does not change.
    for (status, cursors) in [
        ("", vec![&waiting, &succeeded, &failed]),
        ("&status=pending", vec![&waiting, &succeeded, &failed]),
        ("&status=succeeded", vec![&succeeded]),
        ("&status=failed", vec![&failed]),
    ] {
        for cursor in [&waiting, &succeeded, &failed] {
            for (endpoint, matches) in [(None, true), (Some(&one), true), (Some(&other), false)] {
                let endpoint = endpoint.map(|id| format!("&endpointId={id}")).unwrap_or_default();
                let path = format!("{DELIVERIES}?startingAfter={cursor}{status}{endpoint}");
                let page = merchant.api.get(&path).await?;
                if matches && cursors.contains(&cursor) {
                    assert!(!ids(&page).contains(cursor), "{path}");
                } else {
                    invalid(&page, "startingAfter");
                }
            }
        }
    }
    for cursor in ["whd_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "", &one] {
        invalid(&merchant.api.get(&format!("{DELIVERIES}?startingAfter={cursor}")).await?, "startingAfter");
    }
    Ok(())
}

#[tokio::test]
async fn unknown_and_foreign_endpoints_are_not_found() -> Result<()> {
    let (merchant, other_merchant) = (merchant().await?, merchant().await?);
    let foreign = endpoint(&other_merchant).await?;
    for unknown in [foreign.as_str(), "we_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "", &merchant.account.id] {
        not_found(&merchant.api.get(&format!("{DELIVERIES}?endpointId={unknown}")).await?);
        // Unknown objects come before cursors, and query syntax before both.
        let cursor = "startingAfter=whd_01ARZ3NDEKTSV4RRFFQ69G5FAV";
        not_found(&merchant.api.get(&format!("{DELIVERIES}?endpointId={unknown}&{cursor}")).await?);
        invalid(&merchant.api.get(&format!("{DELIVERIES}?endpointId={unknown}&status=x")).await?, "status");
    }
    let own = endpoint(&merchant).await?;
    assert!(ids(&merchant.api.get(&format!("{DELIVERIES}?endpointId={own}")).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn status_filters_are_validated() -> Result<()> {
    let merchant = merchant().await?;
    for status in ["", "Pending", "done", "0", "pending,failed"] {
        invalid(&merchant.api.get(&format!("{DELIVERIES}?status={status}")).await?, "status");
    }
    for status in ["pending", "succeeded", "failed"] {
        ok(&merchant.api.get(&format!("{DELIVERIES}?status={status}")).await?);
    }
    for limit in ["0", "101", "x"] {
        invalid(&merchant.api.get(&format!("{DELIVERIES}?limit={limit}")).await?, "limit");
    }
    Ok(())
}
