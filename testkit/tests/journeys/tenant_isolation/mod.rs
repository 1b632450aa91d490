//! Isolation between accounts. Requests about objects of another account get the same response as requests about
//! objects that do not exist, and change nothing. Database constraints reject rows that mix two accounts.

mod beyond_ids;
mod catalog;
mod document;
mod roles;
mod secret_leaks;
mod tenant;
mod unknown_fields;

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Client, Cluster, Response};

use self::{
    document::{Location, Operation, operations},
    tenant::Tenant,
};
use crate::support::cluster_without_scheduler;

/// The keys that the client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// A key with all entitlements.
    Full,
    /// For each route a key with only the entitlement of that route.
    Limited,
    /// A key that can only list plans.
    Unrelated,
}

/// A client of one account that sends ids of another account.
struct ForeignClient<'a> {
    cluster: &'a Cluster,
    own: &'a Tenant,
    other: &'a Tenant,
    keys: Keys,
}

impl ForeignClient<'_> {
    /// Asserts that each route, for each id of the other account in each location, responds as for an id that does not
    /// exist. Returns the number of requests.
    async fn assert_foreign_ids_not_found(&self, operations: &[Operation]) -> Result<usize> {
        let mut requests = 0;
        for operation in operations {
            let key = self.key(operation).await?;
            for (location, kind) in &operation.slots {
                let what = format!("{:?}: {} with a foreign {kind} in {location:?}", self.keys, operation.name);
                let unknown = tenant::unknown(kind);
                let for_unknown = self.ask(operation, key.as_ref(), location, &unknown).await?;
                for foreign in self.other.owned.get(kind.as_str()).with_context(|| what.clone())? {
                    let response = self.ask(operation, key.as_ref(), location, foreign).await?;
                    assert_eq!(normalized(&response, foreign), normalized(&for_unknown, &unknown), "{what}");
                    assert!(response.status >= 400 || finds_nothing(&response), "{what}: {}", response.body);
                    requests += 1;
                }
            }
        }
        Ok(requests)
    }

    /// Asserts that the same requests with own ids respond differently, so that the id made the difference.
    async fn assert_own_ids_accepted(&self, operations: &[Operation]) -> Result<()> {
        let mut indistinguishable = Vec::new();
        // Deletions run last, because deleted objects no longer exist for other requests.
        let (last, first): (Vec<_>, Vec<_>) =
            operations.iter().partition(|operation| operation.method == Method::DELETE);
        for operation in first.into_iter().chain(last) {
            for (location, kind) in &operation.slots {
                let (unknown, own) = (tenant::unknown(kind), self.own.own(kind));
                let for_unknown = self.ask(operation, None, location, &unknown).await?;
                let response = self.ask(operation, None, location, &own).await?;
                if normalized(&response, &own) == normalized(&for_unknown, &unknown) && !finds_nothing(&response) {
                    indistinguishable.push(format!("{} {location:?}: {}", operation.name, response.body));
                }
            }
        }
        assert!(
            indistinguishable.is_empty(),
            "these respond the same for own and unknown ids:\n  {}",
            indistinguishable.join("\n  ")
        );
        Ok(())
    }

    /// Asserts that no list contains objects of the other account.
    async fn assert_lists_exclude_foreign_objects(&self, operations: &[Operation]) -> Result<()> {
        let lists: Vec<_> = operations.iter().filter(|operation| operation.is_list()).collect();
        assert!(lists.len() >= 11, "{}", lists.len());
        for list in lists {
            let (path, _) = list.request(|kind| self.own.own(kind), None);
            let response = self.own.send(Method::GET, &path, None).await?;
            assert_eq!(response.status, 200, "{path}: {}", response.body);
            let listed = String::from_utf8_lossy(&response.bytes).into_owned();
            assert!(listed.contains("\"id\""), "{path} lists nothing: {listed}");
            for (kind, ids) in &self.other.owned {
                assert!(ids.iter().all(|id| !listed.contains(id.as_str())), "{path} lists a foreign {kind}");
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        operation: &Operation,
        key: Option<&Client>,
        location: &Location,
        id: &str,
    ) -> Result<Response> {
        let (path, body) = operation.request(|kind| self.own.own(kind), Some((location, id)));
        let bytes = body.as_ref().map(|body| body.as_bytes().to_vec());
        match key {
            Some(key) => key.send(operation.method.clone(), &path, bytes).await,
            None if operation.is_for_browsers() => {
                self.own.browser.api.send(operation.method.clone(), &path, bytes).await
            }
            None => self.own.send(operation.method.clone(), &path, body.as_deref()).await,
        }
    }

    async fn key(&self, operation: &Operation) -> Result<Option<Client>> {
        let entitlement = match self.keys {
            Keys::Full => return Ok(None),
            Keys::Limited => operation.name.as_str(),
            Keys::Unrelated => "plans.list",
        };
        // Capabilities need no entitlement and take no ids.
        if operation.slots.is_empty() {
            return Ok(None);
        }
        let kind = if operation.is_for_browsers() { "publishable" } else { "secret" };
        let account = &self.own.merchant.account.id;
        let arguments = ["keys", "create", "--account", account, "--kind", kind, "--entitlement", entitlement];
        let key = self.cluster.ctl(&arguments).await?;
        let client = Client::new(&self.cluster.api_url(0))?.bearer(key["key"].as_str().context("a key")?)?;
        Ok(Some(client.header("origin", crate::support::ORIGIN)?))
    }
}

/// Whether a filter matches no object.
fn finds_nothing(response: &Response) -> bool {
    response.status == 200 && response.body["data"].as_array().is_some_and(Vec::is_empty)
}

/// The response without the requested id and the request id, for comparison.
fn normalized(response: &Response, id: &str) -> String {
    let mut headers: Vec<_> = response
        .headers
        .iter()
        .filter(|(name, _)| !["request-id", "date", "ratelimit"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    headers.sort();
    // The length depends on the id if the response repeats it.
    headers.retain(|header| !header.starts_with("content-length"));
    let request = response.header("request-id").unwrap_or("none");
    let body = String::from_utf8_lossy(&response.bytes).replace(id, "{id}").replace(request, "{request}");
    format!("{} {headers:?} {body}", response.status)
}

#[tokio::test]
async fn objects_of_other_accounts_are_not_found() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let operations = operations(&Client::new(&cluster.api_url(0))?).await?;
    let (own, other) = (Tenant::new(cluster).await?, Tenant::new(cluster).await?);
    let before = other.books().await?;
    for keys in [Keys::Full, Keys::Limited, Keys::Unrelated] {
        let client = ForeignClient { cluster, own: &own, other: &other, keys };
        let requests = client.assert_foreign_ids_not_found(&operations).await?;
        assert!(requests >= 80, "only {requests} requests");
        other.assert_unchanged(&before, &format!("{keys:?}")).await?;
    }
    let client = ForeignClient { cluster, own: &own, other: &other, keys: Keys::Full };
    client.assert_lists_exclude_foreign_objects(&operations).await?;
    client.assert_own_ids_accepted(&operations).await?;
    other.assert_unchanged(&before, "requests with own ids").await
}

/// The live and the test account of one merchant are isolated like any two accounts.
#[tokio::test]
async fn live_and_test_accounts_are_isolated() -> Result<()> {
    let cluster = cluster_without_scheduler().await?;
    let operations = operations(&Client::new(&cluster.api_url(0))?).await?;
    let (test, mut live) = (Tenant::new(cluster).await?, Tenant::new(cluster).await?);
    live.go_live(cluster, &test).await?;
    let listed = live.send(Method::GET, &format!("/v1/payments/{}", live.own("pay")), None).await?;
    assert_eq!((listed.status, &listed.body["livemode"]), (200, &true.into()), "{}", listed.body);
    for (own, other) in [(&test, &live), (&live, &test)] {
        let before = other.books().await?;
        let client = ForeignClient { cluster, own, other, keys: Keys::Full };
        assert!(client.assert_foreign_ids_not_found(&operations).await? >= 80);
        client.assert_lists_exclude_foreign_objects(&operations).await?;
        other.assert_unchanged(&before, "the other mode").await?;
    }
    Ok(())
}
