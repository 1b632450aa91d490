//! A gateway, and a merchant's client.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use sqlx::{Connection, PgConnection};
use testkit::{Builder, Cluster};
use tokio::sync::OnceCell;

/// Longer than anything takes on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// In the response to a request that was refused because the process had been suspended.
pub(crate) const SUSPENDED: &str = "the gateway was suspended; nothing was entered";

pub(crate) const GOOD: &str = "4242424242424242";
pub(crate) const DECLINED: &str = "4000000000000002";
pub(crate) const CHALLENGED: &str = "4000002500003155";

#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) username: String,
    pub(crate) api_key: String,
    pub(crate) secret_key: String,
    pub(crate) app_key: String,
}

/// A cluster of its own, or the one that tests share.
pub(crate) enum Running {
    Own(Box<Cluster>),
    Shared(&'static Cluster),
}

impl Deref for Running {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        match self {
            Self::Own(cluster) => cluster,
            Self::Shared(cluster) => cluster,
        }
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Cluster {
        match self {
            Self::Own(cluster) => cluster,
            Self::Shared(_) => panic!("other tests use this gateway"),
        }
    }
}

/// A running gateway.
pub(crate) struct World {
    pub(crate) cluster: Running,
    pub(crate) account: Account,
    http: reqwest::Client,
    /// What the user names of its accounts end with.
    suffix: String,
}

#[derive(Clone)]
pub(crate) struct Form(BTreeMap<String, String>);

impl Form {
    pub(crate) fn empty() -> Self {
        Self(BTreeMap::new())
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn encoded(&self) -> String {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }

    #[must_use]
    pub(crate) fn without(mut self, name: &str) -> Self {
        assert!(self.0.remove(name).is_some(), "{name} was not there");
        self
    }
}

/// The response of a script.
#[derive(Clone, Debug)]
pub(crate) struct Reply(pub(crate) Value);

impl Reply {
    pub(crate) fn code(&self) -> &str {
        self.text("code")
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_else(|| panic!("no text {name} in {}", self.0))
    }

    pub(crate) fn id(&self) -> &str {
        assert_eq!(self.code(), "00", "{}", self.0);
        self.text("transaction_id")
    }

    #[track_caller]
    pub(crate) fn is(&self, code: &str) -> &Self {
        assert_eq!(self.code(), code, "{}", self.0);
        self
    }

    /// An error has only a code and a description.
    #[track_caller]
    pub(crate) fn expect_error(&self, code: &str, mentions: &str) {
        assert_eq!(self.code(), code, "{}", self.0);
        let keys: Vec<_> = self.0.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["code", "description"], "{}", self.0);
        assert!(self.text("description").contains(mentions), "{} does not mention {mentions}", self.0);
    }
}

impl World {
    /// One gateway, and an account with generous limits.
    pub(crate) async fn new() -> Self {
        Self::of(Cluster::builder().gateway(1), &[]).await
    }

    pub(crate) async fn of(builder: Builder, options: &[&str]) -> Self {
        let cluster = builder.start().await.expect("a gateway");
        Self::with(Running::Own(Box::new(cluster)), String::new(), options).await
    }

    /// As [`Self::new`] at a gateway that other tests use at the same time: for a test that neither reads nor changes what
    /// is not its account's, by the database, a process or a metric.
    pub(crate) async fn shared() -> Self {
        static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let start = || async { Cluster::builder().gateway(1).start().await.expect("a gateway") };
        let cluster = CLUSTER.get_or_init(start).await;
        let suffix = format!("-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        Self::with(Running::Shared(cluster), suffix, &[]).await
    }

    async fn with(cluster: Running, suffix: String, options: &[&str]) -> Self {
        // Its connections belong to the runtime of the test.
        let http = reqwest::Client::builder()
            .retry(reqwest::retry::never())
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(TIMEOUT)
            .build()
            .expect("a client");
        let account = create(&cluster, &format!("shop{suffix}"), options).await;
        Self { cluster, account, http, suffix }
    }

    /// Another gateway on the same database, with an environment of its own.
    pub(crate) async fn second_gateway(&self, builder: Builder) -> Self {
        let builder = builder.gateway(1).env("DATABASE_URL", self.cluster.database_url());
        let cluster = Running::Own(Box::new(builder.start().await.expect("another gateway")));
        Self { cluster, account: self.account.clone(), http: self.http.clone(), suffix: self.suffix.clone() }
    }

    pub(crate) async fn add_account(&self, username: &str, options: &[&str]) -> Account {
        create(&self.cluster, &format!("{username}{}", self.suffix), options).await
    }

    /// Changes the settings of its account.
    pub(crate) async fn set(&self, options: &[&str]) {
        let arguments = [&["account", "set", "--username", self.account.username.as_str()][..], options].concat();
        self.cluster.run_gateway(&arguments).await.expect("options");
    }

    pub(crate) fn base(&self) -> String {
        self.cluster.gateway_url(0)
    }

    /// Only the credentials.
    pub(crate) fn keys(&self) -> Form {
        self.keys_of(&self.account)
    }

    pub(crate) fn keys_of(&self, account: &Account) -> Form {
        Form::empty().with("username", &account.username).with("api_key", &account.api_key)
    }

    /// A valid form for sale and authorize, with an amount that no other form of this process has.
    pub(crate) fn charge(&self, number: &str) -> Form {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut form = self.keys();
        for (name, value) in [
            ("creditcard_number", number),
            ("expire_month", "12"),
            ("expire_year", "2034"),
            ("cvv", "917"),
            ("amount", &format!("{}.{:02}", 10 + n / 100, n % 100)),
            ("currency", "USD"),
            ("first_name", "Jane"),
            ("last_name", "Doe"),
            ("country_code", "US"),
            ("zip_code", "10001"),
            ("email", "jane@example.com"),
            ("ship_address_as_bill_address", "Y"),
        ] {
            form = form.with(name, value);
        }
        form
    }

    pub(crate) async fn post(&self, script: &str, form: &Form) -> Reply {
        self.post_to(&format!("{}/apis/{script}", self.base()), form).await
    }

    /// To a public endpoint for browsers.
    pub(crate) async fn post_public(&self, path: &str, form: &Form) -> Reply {
        self.post_to(&format!("{}/services/{path}", self.base()), form).await
    }

    pub(crate) fn browser(&self) -> Form {
        let form = Form::empty().with("app_key", &self.account.app_key);
        form.with("name", "Jane Doe").with("zip_code", "94105").with("country_code", "US")
    }

    async fn post_to(&self, url: &str, form: &Form) -> Reply {
        let response = self.raw(url, form).await;
        assert_eq!(response.status(), 200, "{url}");
        assert_eq!(response.headers()["content-type"], "application/json");
        let body: Value = response.json().await.expect("JSON");
        assert_eq!(body.as_object().expect("an object").len(), 1, "{body}");
        Reply(body["response"].clone())
    }

    /// Repeats a request that the gateway refused because it had been suspended, as on a machine under load: nothing
    /// was entered.
    pub(crate) async fn raw(&self, url: &str, form: &Form) -> reqwest::Response {
        wait_until("a gateway that is not suspended", async || {
            let response = self.send(self.http.post(url), form).await.expect("a response");
            let mut copy = axum::http::Response::new(());
            *copy.status_mut() = response.status();
            *copy.headers_mut() = response.headers().clone();
            let body = response.text().await.expect("a body");
            (!body.contains(SUSPENDED)).then(|| copy.map(|()| body).into())
        })
        .await
    }

    pub(crate) async fn send(
        &self,
        request: reqwest::RequestBuilder,
        form: &Form,
    ) -> Result<reqwest::Response, reqwest::Error> {
        request.header("content-type", "application/x-www-form-urlencoded").body(form.encoded()).send().await
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Sends the same form several times concurrently.
    pub(crate) async fn concurrently(&self, script: &str, form: &Form, times: usize) -> Vec<Reply> {
        futures_util::future::join_all((0..times).map(|_| self.post(script, form))).await
    }

    /// Every record of the report with these filters.
    pub(crate) async fn report(&self, narrow: &[(&str, &str)]) -> Vec<Value> {
        let mut form = self.keys().with("start_date", "2020-01-01").with("end_date", "2099-12-31");
        for (name, value) in narrow {
            form = form.with(name, value);
        }
        let reply = self.post("report.php", &form).await;
        reply.is("00").0["transactions"].as_array().expect("a list").clone()
    }

    /// The report's record of a transaction.
    pub(crate) async fn record(&self, id: &str) -> Value {
        let records = self.report(&[("transaction_id", id)]).await;
        assert_eq!(records.len(), 1, "{id}: {records:?}");
        records[0].clone()
    }

    pub(crate) async fn database(&self) -> PgConnection {
        PgConnection::connect(self.cluster.database_url()).await.expect("the database")
    }

    /// Runs a statement without parameters and returns the number of affected rows.
    pub(crate) async fn execute(&self, statement: &'static str) -> u64 {
        sqlx::query(statement).execute(&mut self.database().await).await.expect(statement).rows_affected()
    }

    pub(crate) async fn number(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(&mut self.database().await).await.expect(statement)
    }
}

/// The number of replies with this code.
pub(crate) fn count(replies: &[Reply], code: &str) -> usize {
    replies.iter().filter(|reply| reply.code() == code).count()
}

async fn create(cluster: &Cluster, username: &str, options: &[&str]) -> Account {
    // Generous limits; a test of limits sets its own afterwards.
    let no_limits = ["--daily-transactions", "1000000", "--hourly-per-address", "1000000"];
    let arguments = [&["account", "create", "--username", username][..], &no_limits[..]].concat();
    let keys = cluster.run_gateway(&arguments).await.expect("an account");
    if !options.is_empty() {
        let arguments = [&["account", "set", "--username", username][..], options].concat();
        cluster.run_gateway(&arguments).await.expect("options");
    }
    let text = |name: &str| keys[name].as_str().expect(name).to_owned();
    Account {
        username: text("username"),
        api_key: text("api_key"),
        secret_key: text("secret_key"),
        app_key: text("app_key"),
    }
}

/// AES-128-ECB with PKCS#7 in base64, as merchants encrypt.
pub(crate) fn encrypt(key: &str, text: &str) -> String {
    let padding = 16 - text.len() % 16;
    let mut bytes = text.as_bytes().to_vec();
    bytes.extend(std::iter::repeat_n(padding as u8, padding));
    encrypt_blocks(key, bytes)
}

/// Encrypts bytes that are padded already, correctly or not.
pub(crate) fn encrypt_blocks(key: &str, mut bytes: Vec<u8>) -> String {
    use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
    use base64::Engine;
    let cipher = aes::Aes128::new_from_slice(key.as_bytes()).expect("16 characters");
    for block in bytes.chunks_exact_mut(16) {
        let mut array = Array::try_from(&*block).expect("16 bytes");
        cipher.encrypt_block(&mut array);
        block.copy_from_slice(&array);
    }
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

/// Polls until there is a result, for as long as a slow machine may take.
pub(crate) async fn wait_until<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    testkit::eventually(what, async || Ok(poll().await)).await.unwrap_or_else(|error| panic!("{error:#}"))
}

/// The form with this card.
pub(crate) fn card(form: Form, number: &str) -> Form {
    form.with("creditcard_number", number).with("expire_month", "12").with("expire_year", "2034")
}

/// A charge by token, without the fields that the token replaces.
pub(crate) fn by_token(world: &World, token: &str) -> Form {
    let form = world.charge(GOOD).with("card_token", token);
    ["creditcard_number", "expire_month", "expire_year", "cvv"].into_iter().fold(form, Form::without)
}
