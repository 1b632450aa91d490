//! The walls between accounts. What an account asks about another's objects is answered as if they did not exist, and nothing
//! of the other's changes; and what a mistake in a process would mix up, the database refuses.

mod catalog;
mod document;
mod estate;
mod others;
mod roles;
mod stolen;
mod unknown;

use anyhow::{Context, Result};
use reqwest::Method;
use testkit::{Answer, Client, Cluster};

use self::{
    document::{Operation, Place, operations},
    estate::Estate,
};

/// Nothing falls due by itself in it: no scheduler runs.
async fn quiet() -> Result<Cluster> {
    Cluster::builder().api(1).worker(1).start().await
}

/// With what the stranger comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// Its own, that may do everything.
    Whole,
    /// For each route a key that may do this and nothing else.
    Narrow,
    /// A key that may list plans.
    Other,
}

/// A stranger before the wall, and whom it hides.
struct Stranger<'a> {
    cluster: &'a Cluster,
    own: &'a Estate,
    of: &'a Estate,
    keys: Keys,
}

impl Stranger<'_> {
    /// Each route with each name of the other's objects in each place is answered as with a name of nothing.
    async fn sees_nothing(&self, operations: &[Operation]) -> Result<usize> {
        let mut asked = 0;
        for operation in operations {
            let key = self.key(operation).await?;
            for (place, kind) in &operation.slots {
                let what = format!("{:?}: {} with another's {kind} in {place:?}", self.keys, operation.name);
                let nothing = estate::unknown(kind);
                let of_nothing = self.ask(operation, key.as_ref(), place, &nothing).await?;
                for theirs in self.of.owned.get(kind.as_str()).with_context(|| what.clone())? {
                    let answer = self.ask(operation, key.as_ref(), place, theirs).await?;
                    assert_eq!(told(&answer, theirs), told(&of_nothing, &nothing), "{what}");
                    assert!(answer.status >= 400 || kind == "externalId", "{what}: {}", answer.body);
                    asked += 1;
                }
            }
        }
        Ok(asked)
    }

    /// The same request with the stranger's own name is answered otherwise: so it was the name that counted.
    async fn is_let_to_its_own(&self, operations: &[Operation]) -> Result<()> {
        let mut dead = Vec::new();
        // What is deleted is as good as nothing to those that come after.
        let (last, first): (Vec<_>, Vec<_>) =
            operations.iter().partition(|operation| operation.method == Method::DELETE);
        for operation in first.into_iter().chain(last) {
            for (place, kind) in &operation.slots {
                let (nothing, own) = (estate::unknown(kind), self.own.own(kind));
                let of_nothing = self.ask(operation, None, place, &nothing).await?;
                let answer = self.ask(operation, None, place, &own).await?;
                if told(&answer, &own) == told(&of_nothing, &nothing) {
                    dead.push(format!("{} {place:?}: {}", operation.name, answer.body));
                }
            }
        }
        assert!(dead.is_empty(), "these say the same of one's own and of nothing:\n  {}", dead.join("\n  "));
        Ok(())
    }

    /// No list shows the other's.
    async fn lists_none_of_it(&self, operations: &[Operation]) -> Result<()> {
        let lists: Vec<_> = operations.iter().filter(|operation| operation.is_list()).collect();
        assert!(lists.len() >= 11, "{}", lists.len());
        for list in lists {
            let (path, _) = list.request(|kind| self.own.own(kind), None);
            let answer = self.own.send(Method::GET, &path, None).await?;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            let shown = String::from_utf8_lossy(&answer.bytes).into_owned();
            assert!(shown.contains("\"id\""), "{path} shows nothing at all: {shown}");
            for (kind, ids) in &self.of.owned {
                assert!(ids.iter().all(|id| !shown.contains(id.as_str())), "{path} shows another's {kind}");
            }
        }
        Ok(())
    }

    async fn ask(&self, operation: &Operation, key: Option<&Client>, place: &Place, id: &str) -> Result<Answer> {
        let (path, body) = operation.request(|kind| self.own.own(kind), Some((place, id)));
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
            Keys::Whole => return Ok(None),
            Keys::Narrow => operation.name.as_str(),
            Keys::Other => "plans.list",
        };
        // Capabilities need no entitlement, and name nothing.
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

/// All that an answer says, but for the name that was asked for and the one of the request.
fn told(answer: &Answer, id: &str) -> String {
    let mut headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| !["request-id", "date", "ratelimit"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    headers.sort();
    // How long the name is does not count, should it be repeated.
    headers.retain(|header| !header.starts_with("content-length"));
    let request = answer.header("request-id").unwrap_or("none");
    let body = String::from_utf8_lossy(&answer.bytes).replace(id, "{id}").replace(request, "{request}");
    format!("{} {headers:?} {body}", answer.status)
}

#[tokio::test]
async fn anothers_objects_are_as_if_they_did_not_exist() -> Result<()> {
    let cluster = quiet().await?;
    let operations = operations(&Client::new(&cluster.api_url(0))?).await?;
    let (own, of) = (Estate::new(&cluster).await?, Estate::new(&cluster).await?);
    let before = of.books().await?;
    for keys in [Keys::Whole, Keys::Narrow, Keys::Other] {
        let stranger = Stranger { cluster: &cluster, own: &own, of: &of, keys };
        let asked = stranger.sees_nothing(&operations).await?;
        assert!(asked >= 80, "only {asked} were asked");
        of.is_untouched(&before, &format!("{keys:?}")).await?;
    }
    let stranger = Stranger { cluster: &cluster, own: &own, of: &of, keys: Keys::Whole };
    stranger.lists_none_of_it(&operations).await?;
    stranger.is_let_to_its_own(&operations).await?;
    of.is_untouched(&before, "what was done to one's own").await
}

/// A merchant's two accounts are as strange to each other as any.
#[tokio::test]
async fn live_and_test_know_nothing_of_each_other() -> Result<()> {
    let cluster = quiet().await?;
    let operations = operations(&Client::new(&cluster.api_url(0))?).await?;
    let (test, mut live) = (Estate::new(&cluster).await?, Estate::new(&cluster).await?);
    live.go_live(&cluster, &test).await?;
    let shown = live.send(Method::GET, &format!("/v1/payments/{}", live.own("pay")), None).await?;
    assert_eq!((shown.status, &shown.body["livemode"]), (200, &true.into()), "{}", shown.body);
    for (own, of) in [(&test, &live), (&live, &test)] {
        let before = of.books().await?;
        let stranger = Stranger { cluster: &cluster, own, of, keys: Keys::Whole };
        assert!(stranger.sees_nothing(&operations).await? >= 80);
        stranger.lists_none_of_it(&operations).await?;
        of.is_untouched(&before, "the other mode").await?;
    }
    Ok(())
}
