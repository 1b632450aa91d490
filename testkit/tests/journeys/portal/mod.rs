//! The portal without a browser: sign-in, sessions, pages, and what no one may see.

mod acting;
mod activity;
mod authenticator;
mod busy;
mod developers;
mod forms;
mod home;
mod languages;
mod late;
mod logo;
mod passkeys;
mod processes;
mod reading;
mod requests;
mod settings;
mod sign_in;
mod team;

use anyhow::{Context, Result};
use reqwest::header::{CONTENT_TYPE, COOKIE, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use testkit::PortalUser;

use crate::support::{Merchant, cluster};

/// A page.
struct Page {
    status: u16,
    headers: reqwest::header::HeaderMap,
    html: String,
}

impl Page {
    fn location(&self) -> &str {
        self.headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The nonce of the form with this action.
    fn nonce(&self, action: &str) -> Result<&str> {
        let form = self.html.split(&format!("action=\"{action}\"")).nth(1).with_context(|| self.html.clone())?;
        let nonce = form.split("name=\"nonce\" value=\"").nth(1).context("no nonce")?;
        nonce.get(..32).context("a short nonce")
    }

    /// The value that a new session's cookie has.
    fn cookie(&self) -> Option<&str> {
        self.cookie_named("__Host-session")
    }

    fn cookie_named(&self, name: &str) -> Option<&str> {
        let set = self.headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        set.filter_map(|cookie| cookie.split(';').next()?.split_once('='))
            .find(|(own, _)| *own == name)
            .map(|(_, value)| value)
    }

    /// The text between the first `before` and the next `<`.
    fn text_after(&self, before: &str) -> Result<&str> {
        let rest = self.html.split_once(before).with_context(|| format!("{before} in {}", self.html))?.1;
        Ok(rest.split('<').next().unwrap_or_default())
    }
}

/// A browser without scripts.
struct Visitor {
    client: reqwest::Client,
    url: String,
    cookie: String,
    /// The cookie of a sign-in whose code is awaited.
    awaiting: String,
    /// The cookie of an earlier sign-in.
    device: String,
    /// The cookie with the page that was requested before the sign-in.
    asked: String,
    /// The cookie of the challenge for a passkey.
    passkey: String,
}

impl Visitor {
    async fn new() -> Result<Self> {
        Self::at(cluster().await?.portal_url(0))
    }

    /// At the portal with this address.
    fn at(url: String) -> Result<Self> {
        let client = reqwest::Client::builder().redirect(Policy::none()).user_agent(busy::MARKUP).build()?;
        let (cookie, awaiting, device, asked, passkey) = Default::default();
        Ok(Self { client, url, cookie, awaiting, device, asked, passkey })
    }

    /// The browser of a new user of the merchant.
    async fn signed_in(merchant: &Merchant, role: &str) -> Result<Self> {
        Self::new().await?.with_session(&user(merchant, role).await?).await
    }

    /// The same browser, in which this user has signed in.
    async fn with_session(mut self, user: &PortalUser) -> Result<Self> {
        let page = self.sign_in(&user.email, &user.password).await?;
        page.cookie().with_context(|| page.html.clone())?.clone_into(&mut self.cookie);
        Ok(self)
    }

    async fn open(&self, path: &str) -> Result<Page> {
        let request = self.client.get(format!("{}{path}", self.url));
        read(request.header(COOKIE, self.cookies())).await
    }

    fn cookies(&self) -> String {
        let Self { cookie, awaiting, device, asked, passkey, .. } = self;
        let cookies =
            [("session", cookie), ("sign-in", awaiting), ("device", device), ("asked", asked), ("passkey", passkey)];
        let set = cookies.iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, value)| format!("__Host-{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    /// Sends a form of a page once, and returns the page that it leads to. If the session gets another cookie, it is kept.
    async fn act(&mut self, page: &str, address: &str, form: &[(&str, &str)]) -> Result<Page> {
        let page = self.open(page).await?;
        let done = self.send(address, page.nonce(address)?, form).await?;
        if let Some(cookie) = done.cookie() {
            cookie.clone_into(&mut self.cookie);
        }
        match done.status {
            303 => self.open(done.location()).await,
            _ => Ok(done),
        }
    }

    /// Confirms an action on the page that asks for it.
    async fn confirm(&self, address: &str) -> Result<Page> {
        let asked = self.open(address).await?;
        self.send(address, asked.nonce(address)?, &[("confirm", "yes")]).await
    }

    async fn send(&self, address: &str, nonce: &str, form: &[(&str, &str)]) -> Result<Page> {
        self.post(address, &self.url, &[&[("nonce", nonce)][..], form].concat()).await
    }

    /// Sends a form with a file, as browsers do.
    async fn send_file(&self, address: &str, nonce: &str, (field, file): (&str, &[u8])) -> Result<Page> {
        let head = format!(
            "--part\r\nContent-Disposition: form-data; name=\"nonce\"\r\n\r\n{nonce}\r\n\
             --part\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"picture.png\"\r\n\
             Content-Type: image/png\r\n\r\n"
        );
        let body = [head.as_bytes(), file, b"\r\n--part--\r\n"].concat();
        let request = self.client.post(format!("{}{address}", self.url)).header(ORIGIN, &self.url).body(body);
        let request = request.header(CONTENT_TYPE, "multipart/form-data; boundary=part");
        read(request.header(COOKIE, self.cookies())).await
    }

    async fn post(&self, path: &str, origin: &str, form: &[(&str, &str)]) -> Result<Page> {
        let body = form.iter().map(|(name, value)| format!("{name}={}", value.replace('+', "%2B"))).collect::<Vec<_>>();
        let request = self.client.post(format!("{}{path}", self.url)).header(ORIGIN, origin).body(body.join("&"));
        read(request.header(COOKIE, self.cookies())).await
    }

    async fn sign_in(&self, email: &str, password: &str) -> Result<Page> {
        self.post("/sign-in", &self.url, &[("email", email), ("password", password)]).await
    }
}

async fn read(request: reqwest::RequestBuilder) -> Result<Page> {
    let response = request.send().await?;
    Ok(Page { status: response.status().as_u16(), headers: response.headers().clone(), html: response.text().await? })
}

/// A new user of the merchant.
async fn user(merchant: &Merchant, role: &str) -> Result<PortalUser> {
    cluster().await?.portal_user(&merchant.account, role).await
}
