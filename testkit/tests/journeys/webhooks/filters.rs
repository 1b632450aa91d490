//! The filters of the list of deliveries: what they refuse, and what they make of a cursor.

use anyhow::Result;

use super::{DELIVERIES, Event, endpoint, made, merchant, pending};
use crate::support::{ids, invalid, not_found, ok};

#[tokio::test]
async fn a_cursor_must_be_within_the_filters() -> Result<()> {
    let merchant = merchant().await?;
    let event = Event::of(&merchant).await?;
    let (one, other) = (endpoint(&merchant).await?, endpoint(&merchant).await?);
    let waiting = pending(&merchant, &one, &event).await?;
    let succeeded = made(&merchant, &one, &event, "succeeded").await?;
    let failed = made(&merchant, &one, &event, "failed").await?;
    // What has ended was pending when its page was read, or may have been; an end changes no more.
    for (status, cursors) in [
        ("", vec![&waiting, &succeeded, &failed]),
        ("&status=pending", vec![&waiting, &succeeded, &failed]),
        ("&status=succeeded", vec![&succeeded]),
        ("&status=failed", vec![&failed]),
    ] {
        for cursor in [&waiting, &succeeded, &failed] {
            for (endpoint, is_within) in [(None, true), (Some(&one), true), (Some(&other), false)] {
                let endpoint = endpoint.map(|id| format!("&endpointId={id}")).unwrap_or_default();
                let path = format!("{DELIVERIES}?startingAfter={cursor}{status}{endpoint}");
                let page = merchant.api.get(&path).await?;
                if is_within && cursors.contains(&cursor) {
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
async fn an_endpoint_of_nobody_or_of_others_is_not_found() -> Result<()> {
    let (merchant, stranger) = (merchant().await?, merchant().await?);
    let foreign = endpoint(&stranger).await?;
    for unknown in [foreign.as_str(), "we_01ARZ3NDEKTSV4RRFFQ69G5FAV", "nonsense", "", &merchant.account.id] {
        not_found(&merchant.api.get(&format!("{DELIVERIES}?endpointId={unknown}")).await?);
        // An object before a cursor, and the form of the query before both.
        let cursor = "startingAfter=whd_01ARZ3NDEKTSV4RRFFQ69G5FAV";
        not_found(&merchant.api.get(&format!("{DELIVERIES}?endpointId={unknown}&{cursor}")).await?);
        invalid(&merchant.api.get(&format!("{DELIVERIES}?endpointId={unknown}&status=x")).await?, "status");
    }
    let own = endpoint(&merchant).await?;
    assert!(ids(&merchant.api.get(&format!("{DELIVERIES}?endpointId={own}")).await?).is_empty());
    Ok(())
}

#[tokio::test]
async fn a_status_is_one_of_three() -> Result<()> {
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
