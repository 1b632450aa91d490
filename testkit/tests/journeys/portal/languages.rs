//! The language of pages and invitations: what the user has chosen, otherwise that of the browser.

use anyhow::{Context, Result};
use mail_parser::MessageParser;
use reqwest::header::{ACCEPT_LANGUAGE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;

use super::team::email;
use super::{Page, Visitor, user};
use crate::support::{cluster, created, eventually, id, merchant, payment};

const SECURITY: &str = "/test/security";
const CHOICE: &str = "/test/security/language";

/// A browser that prefers this language.
async fn browser(accepted: &'static str) -> Result<Visitor> {
    let headers = HeaderMap::from_iter([(ACCEPT_LANGUAGE, HeaderValue::from_static(accepted))]);
    let client = reqwest::Client::builder().redirect(Policy::none()).default_headers(headers).build()?;
    Ok(Visitor { client, ..Visitor::new().await? })
}

fn assert_shows(page: &Page, language: &str, parts: &[&str]) {
    let language = format!("<html lang=\"{language}\">");
    for part in [language.as_str()].iter().chain(parts) {
        assert!(page.html.contains(part), "{part} in {}", page.html);
    }
}

#[tokio::test]
async fn a_user_chooses_the_language_of_all_pages() -> Result<()> {
    let merchant = merchant().await?;
    let sold = id(created(&merchant.api.post("/v1/payments", payment(123_450, "tok_ok")).await?))?;
    let (user, path) = (user(&merchant, "owner").await?, format!("/test/payments/{sold}"));
    let mut owner = browser("fr-CH, en;q=0.5").await?.with_session(&user).await?;
    assert_shows(&owner.open("/test").await?, "fr", &["<h1>Accueil</h1>", "Derniers paiements"]);
    let chosen = owner.act(SECURITY, CHOICE, &[("language", "de")]).await?;
    let option = "<option value=\"de\" lang=\"de\" selected>Deutsch</option>";
    assert_shows(&chosen, "de", &["Erledigt.", "<h1>Sicherheit</h1>", option]);

    let amount = "1.234,50\u{a0}USD";
    let home = ["<title>Übersicht</title>", "Neueste Zahlungen", "Genehmigt", amount, "Einstellungen"];
    assert_shows(&owner.open("/test").await?, "de", &home);
    let shown = ["<h1>", amount, "Genehmigt", "Verlauf", "Zahlung eingezogen", ">Erstatten</button>", " UTC</time>"];
    assert_shows(&owner.open(&path).await?, "de", &shown);
    let refused = owner.act(&path, &format!("{path}/refund"), &[("amount", "0")]).await?;
    assert_shows(&refused, "de", &["Erstatten: Zu erstattender Betrag: geben Sie mehr als 0 ein"]);
    let refused = owner.act(SECURITY, "/test/security/password", &[("current", "wrong"), ("password", "x")]).await?;
    assert_shows(&refused, "de", &["Passwort speichern: das aktuelle Passwort ist falsch"]);
    assert_shows(&owner.open("/test/nothing").await?, "de", &["<h1>Nicht gefunden</h1>"]);
    let elsewhere = browser("ja").await?.with_session(&user).await?;
    assert_shows(&elsewhere.open("/test/activity").await?, "de", &["Sprache geändert"]);

    let unknown = owner.act(SECURITY, CHOICE, &[("language", "xx")]).await?;
    assert_eq!(unknown.status, 422);
    assert_shows(&unknown, "de", &["bitte wählen Sie einen Eintrag aus"]);
    let of_browser = owner.act(SECURITY, CHOICE, &[("language", "")]).await?;
    assert_shows(&of_browser, "fr", &["<h1>Sécurité</h1>"]);
    assert_shows(&elsewhere.open("/test").await?, "ja", &["<h1>ホーム</h1>", "USD\u{a0}1,234.50"]);
    Ok(())
}

#[tokio::test]
async fn without_a_session_pages_are_in_the_language_of_the_browser() -> Result<()> {
    let visitor = browser("fr, en;q=0.5").await?;
    assert_shows(&visitor.open("/sign-in").await?, "fr", &["<h1>Se connecter</h1>", "Mot de passe"]);
    let refused = visitor.sign_in("nobody@shop.example", "wrong password").await?;
    assert_shows(&refused, "fr", &["L’adresse e-mail ou le mot de passe est incorrect."]);
    for (accepted, language, title) in
        [("es-MX", "es", "Iniciar sesión"), ("it", "en", "Sign in"), ("ja;q=0.9, it", "ja", "ログイン")]
    {
        let page = browser(accepted).await?.open("/sign-in").await?;
        assert_shows(&page, language, &[&format!("<h1>{title}</h1>")]);
    }
    assert_shows(&Visitor::new().await?.open("/sign-in").await?, "en", &["<h1>Sign in</h1>"]);
    Ok(())
}

#[tokio::test]
async fn an_invitation_is_sent_in_the_language_of_who_invites() -> Result<()> {
    let merchant = merchant().await?;
    let mut owner = browser("es").await?.with_session(&user(&merchant, "owner").await?).await?;
    let form = [("email", &*email(&merchant, "bea")), ("role", "viewer")];
    let page = owner.act("/test/team", "/test/team/new", &form).await?;
    let link = page.text_after("<dt>Enlace</dt><dd><code>")?.to_owned();
    let invitation = page.html.split('/').find(|part| part.starts_with("uinv_")).context("an id")?;
    let name = format!("{invitation}.eml");
    let mail = eventually("the e-mail", async || Ok(cluster().await?.sent_mail().remove(&name))).await?;
    let mail = MessageParser::default().parse(&mail).context("a message")?;
    assert!(mail.subject().is_some_and(|subject| subject.starts_with("Invitación de ")), "{:?}", mail.subject());
    let text = mail.body_text(0).context("a text")?;
    assert!(text.contains(&link) && text.contains("le invita con el rol: lector"), "{text}");
    let path = link.strip_prefix(&owner.url).context("a link to the portal")?;
    let opened = browser("de").await?.open(path).await?;
    assert_shows(&opened, "de", &["lädt Sie ein. Ihre Rolle: <strong>Betrachter</strong>", "Einladung annehmen"]);
    Ok(())
}
