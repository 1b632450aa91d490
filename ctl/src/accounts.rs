//! `ctl accounts …`

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use common::accounts::{self, AccountSettings, Mode};
use common::config;
use common::console::complain;
use common::flows::{self, BusyAccount};
use common::id::{AccountId, MerchantId};
use common::money::Currency;
use common::providers::ProviderKind;
use common::providers::card_gateway::{self, Credentials, Settings as AtGateway};
use common::public_url;
use serde_json::{Value, json};

use crate::output::Output;
use crate::{Ctl, FittingKeys, entry, span};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make an account, with a secret and a publishable key; the secrets are shown this once.
    Create(Create),
    /// Change an account.
    Set(Set),
    /// Tell by what the card gateway knows an account: a JSON object {username, api_key, secret_key} on standard input, as
    /// `gateway account create` and `rotate-keys` print it. Nothing is moved there: that is `accounts set --provider card_gateway`.
    Connect(Connect),
    /// End the reading of what a provider tells of an account that has left it, or begin it again where it ended.
    Statements(Statements),
    /// Accounts, newest first.
    List(List),
    /// The accounts with the most events of late, and those whose test clock is being advanced: whose the work is, and what makes the
    /// database grow.
    Busiest(Busiest),
    /// What an account took of late by its own clock, and how much of it was approved, by currency.
    Volume {
        /// The account (acct_…).
        id: AccountId,
        /// How far back, such as 30m, 6h or 7d. Of more than 200,000 payments the newest are added up.
        #[arg(long, default_value = "24h", value_parser = span)]
        last: Duration,
    },
}

#[derive(Args)]
pub(crate) struct List {
    /// In this mode alone.
    #[arg(long, value_enum, ignore_case = true)]
    mode: Option<ModeArg>,
    /// Whose new money settles there alone.
    #[arg(long, value_enum, ignore_case = true)]
    provider: Option<ProviderArg>,
    /// Of this merchant alone (mer_…).
    #[arg(long)]
    merchant: Option<MerchantId>,
    /// Whose name contains this, in any case.
    #[arg(long)]
    name: Option<String>,
}

impl List {
    fn shows(&self, row: &accounts::AccountRow) -> bool {
        let named = |part: &String| row.name.to_lowercase().contains(&part.to_lowercase());
        self.mode.is_none_or(|mode| Mode::from(mode) == row.mode)
            && self.provider.is_none_or(|provider| ProviderKind::from(provider) == row.provider)
            && self.merchant.is_none_or(|merchant| merchant == row.merchant_id)
            && self.name.as_ref().is_none_or(named)
    }
}

#[derive(Args)]
pub(crate) struct Busiest {
    /// How far back, such as 30m, 6h or 1d. Of more than 200,000 events the newest are counted.
    #[arg(long, default_value = "1h", value_parser = span)]
    last: Duration,
    /// So many at most.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1_000))]
    limit: i64,
}

#[derive(Args)]
pub(crate) struct Statements {
    /// The account (acct_…).
    id: AccountId,
    /// Whose statement.
    #[arg(long, value_enum)]
    provider: ProviderArg,
    /// Whether it is read from now on.
    #[arg(long, value_enum)]
    read: Switch,
}

#[derive(Args)]
pub(crate) struct Connect {
    /// The account (acct_…).
    id: AccountId,
    /// A currency that it may be paid in there; may be repeated. All that the gateway takes by default.
    #[arg(long = "currency", value_parser = parse_currency)]
    currencies: Option<Vec<Currency>>,
    /// Also if the gateway cannot be asked now what is set for the account.
    #[arg(long)]
    unchecked: bool,
}

fn parse_currency(text: &str) -> Result<Currency, String> {
    text.parse().map_err(|error: common::money::UnknownCurrency| error.to_string())
}

#[derive(Args)]
pub(crate) struct Create {
    /// Test or live.
    #[arg(long, value_enum)]
    mode: ModeArg,
    /// The merchant's id (mer_…), to add the account of its other mode; a new merchant by default.
    #[arg(long)]
    merchant: Option<MerchantId>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
pub(crate) struct Set {
    /// The account (acct_…).
    id: AccountId,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
struct Settings {
    /// Shown to people.
    #[arg(long)]
    name: Option<String>,
    /// Who settles new money.
    #[arg(long, value_enum)]
    provider: Option<ProviderArg>,
    /// IANA time zone name, such as America/New_York. UTC by default.
    #[arg(long)]
    timezone: Option<String>,
    /// Whether less than all of an authorization may be captured. On by default.
    #[arg(long, value_enum)]
    partial_capture: Option<Switch>,
    /// Whether less than all may be refunded. On by default.
    #[arg(long, value_enum)]
    partial_refund: Option<Switch>,
    /// JSON such as {"tax":{"type":"percent","value":825}}: surcharge, tax, tip; percent in basis points.
    #[arg(long, value_parser = parse_json)]
    modifiers: Option<Value>,
    /// An origin that may use the publishable keys, such as https://shop.example; may be repeated, replaces the list.
    #[arg(long)]
    origin: Option<Vec<String>>,
    /// Requests per second of each key.
    #[arg(long, requires = "burst", value_parser = clap::value_parser!(i32).range(1..))]
    rate_limit: Option<i32>,
    /// The address that a provider is given for a payer who has none.
    #[arg(long)]
    email: Option<String>,
    /// Where cardholders may ask about a payment, such as "help@shop.example, +1 555 0100"; receipts show it. "" to show none.
    #[arg(long)]
    support_contact: Option<String>,
    /// Requests at once of each key.
    #[arg(long, requires = "rate_limit", value_parser = clap::value_parser!(i32).range(1..))]
    burst: Option<i32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeArg {
    Test,
    Live,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ProviderArg {
    Mock,
    CardGateway,
}

#[derive(Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn parse_json(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}

impl From<ModeArg> for Mode {
    fn from(arg: ModeArg) -> Self {
        match arg {
            ModeArg::Test => Self::Test,
            ModeArg::Live => Self::Live,
        }
    }
}

impl From<ProviderArg> for ProviderKind {
    fn from(arg: ProviderArg) -> Self {
        match arg {
            ProviderArg::Mock => Self::Mock,
            ProviderArg::CardGateway => Self::CardGateway,
        }
    }
}

impl Settings {
    /// What is set by these, for the audit log.
    fn detail(&self) -> Value {
        let on = |switch: &Switch| matches!(switch, Switch::On);
        let facts = [
            ("name", json!(self.name)),
            ("provider", json!(self.provider.map(|provider| ProviderKind::from(provider).name()))),
            ("timezone", json!(self.timezone)),
            ("partial_capture", json!(self.partial_capture.as_ref().map(on))),
            ("partial_refund", json!(self.partial_refund.as_ref().map(on))),
            ("modifiers", json!(self.modifiers)),
            ("allowed_origins", json!(self.origin)),
            ("rate_limit", json!(self.rate_limit)),
            ("burst", json!(self.burst)),
            ("email", json!(self.email)),
            ("support_contact", json!(self.support_contact)),
        ];
        Output::new(facts.into()).into_json()
    }
}

impl From<Settings> for AccountSettings {
    fn from(args: Settings) -> Self {
        let on = |switch| matches!(switch, Switch::On);
        Self {
            name: args.name,
            timezone: args.timezone,
            provider: args.provider.map(Into::into),
            partial_capture: args.partial_capture.map(on),
            partial_refund: args.partial_refund.map(on),
            modifiers: args.modifiers,
            allowed_origins: args.origin,
            rate_limit: args.rate_limit.zip(args.burst),
            email: args.email,
            support_contact: args.support_contact,
        }
    }
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::Create(create) => self::create(ctl, create).await,
        Command::Set(set) => {
            let (detail, mut act) = (set.settings.detail(), ctl.act().await?);
            accounts::set(&mut **act, ctl.clock.now(), set.id, &set.settings.into()).await?;
            act.commit(&entry("accounts.set", set.id, set.id, detail)).await?;
            Ok(one(ctl, set.id).await)
        }
        Command::Connect(args) => connect(ctl, args).await,
        Command::Statements(args) => statements(ctl, args).await,
        Command::List(list) => {
            let rows = accounts::list(&ctl.db).await?;
            let shown = rows.iter().filter(|row| list.shows(row)).map(account);
            Ok(Output::list(
                "accounts",
                shown,
                &["id", "name", "mode", "provider", "connected", "timezone", "created_at"],
            ))
        }
        Command::Busiest(args) => busiest(ctl, args).await,
        Command::Volume { id, last } => {
            let rows = flows::volume::volume_of(&ctl.db, &ctl.clock, id, last).await?;
            let columns =
                &["currency", "payments", "approved", "declined", "failed", "approval_rate", "captured", "refunded"];
            Ok(Output::rows("volume", &rows, columns)?)
        }
    }
}

async fn busiest(ctl: &Ctl, args: Busiest) -> Result<Output> {
    let busiest = flows::busiest_accounts(&ctl.db, args.last, args.limit).await?;
    let head = vec![
        ("since", json!(busiest.since)),
        ("events", json!(busiest.events)),
        ("more", json!(busiest.more)),
        ("accounts", busiest.accounts.iter().map(|row| busy(row).into_json()).collect::<Value>()),
    ];
    Ok(Output::new(head).table("accounts", &["id", "name", "mode", "events", "clock_at", "clock_target"]))
}

fn busy(row: &BusyAccount) -> Output {
    Output::new(vec![
        ("id", json!(row.id)),
        ("name", json!(row.name)),
        ("mode", json!(row.mode)),
        ("events", json!(row.events)),
        ("clock_at", json!(row.advance.map(|advance| advance.at))),
        ("clock_target", json!(row.advance.map(|advance| advance.target))),
    ])
}

async fn create(ctl: &Ctl, create: Create) -> Result<Output> {
    let mode = Mode::from(create.mode);
    // Where it is not said here, the api says so at its start.
    if mode == Mode::Live
        && let Some(base) = config::optional("PUBLIC_URL")?
        && !public_url::is_fit_for_live(&base)
    {
        bail!(
            "PUBLIC_URL must begin with https:// before there is a live account; it may be http:// on loopback alone"
        );
    }
    let now = ctl.clock.now();
    let FittingKeys { peppers, encryption } = ctl.fitting_keys().await?;
    let (set, mut act) = (create.settings.detail(), ctl.act().await?);
    let id = accounts::create(&mut **act, now, create.merchant, mode, &create.settings.into()).await?;
    let secret = accounts::issue_secret(&mut **act, peppers, encryption, now, id, None).await?;
    let publishable = accounts::issue_publishable(&mut **act, peppers, now, id, None).await?;
    let detail = json!({"mode": mode, "set": set, "keys": [secret.id, publishable.id]});
    act.commit(&entry("accounts.create", id, id, detail)).await?;
    Ok(Output::new(vec![
        ("id", json!(id)),
        ("secret_key", json!(secret.key.expose())),
        ("secret_key_id", json!(secret.id)),
        ("publishable_key", json!(publishable.key.expose())),
        ("signing_secret", json!(secret.signing_secret.as_ref().map(|secret| secret.expose()))),
    ]))
}

async fn connect(ctl: &Ctl, args: Connect) -> Result<Output> {
    let json = std::io::read_to_string(std::io::stdin()).context("standard input")?;
    let credentials = Credentials::parse(&json).context(
        "standard input is not a JSON object {username, api_key, secret_key} with a secret_key of 16 characters",
    )?;
    let currencies = args.currencies.as_deref();
    let encryption = ctl.fitting_keys().await?.encryption;
    let codes = currencies.map(|list| list.iter().map(|currency| currency.code()).collect::<Vec<_>>());
    let checked = check_at_gateway(&credentials, currencies, args.unchecked).await?;
    // By which name, and by none of its keys.
    let detail = json!({"username": credentials.username, "currencies": codes, "checked": checked});
    let mut act = ctl.act().await?;
    accounts::connect(&mut **act, encryption, ctl.clock.now(), args.id, credentials, currencies).await?;
    act.commit(&entry("accounts.connect", args.id, args.id, detail)).await?;
    Ok(one(ctl, args.id).await)
}

/// Whether the gateway knows the account by these, and charges what it is asked to charge. `false`: it could not be asked, and that is
/// accepted.
async fn check_at_gateway(credentials: &Credentials, currencies: Option<&[Currency]>, unchecked: bool) -> Result<bool> {
    let Some(url) = config::card_gateway_url()? else {
        complain(format_args!(
            "ctl: warning: the account was not checked at the card gateway: CARD_GATEWAY_URL is not set"
        ));
        return Ok(false);
    };
    let name = &credentials.username;
    let settings = match card_gateway::account_settings(&url, credentials).await {
        AtGateway::Known(settings) => settings,
        AtGateway::UnknownUsername => bail!("username: the card gateway knows no account {name} (code 01)"),
        AtGateway::WrongApiKey => bail!("api_key: it is not the key of {name} at the card gateway (code 09)"),
        AtGateway::NotTold => {
            complain(format_args!(
                "ctl: warning: the account was not checked: this card gateway has no account.php; make sure that {name} has no \
                 convenience fee"
            ));
            return Ok(false);
        }
        AtGateway::NoAnswer(why) if unchecked => {
            complain(format_args!(
                "ctl: warning: the account was not checked: the card gateway at CARD_GATEWAY_URL: {why}"
            ));
            return Ok(false);
        }
        AtGateway::NoAnswer(why) => bail!(
            "the card gateway at CARD_GATEWAY_URL could not be asked about {name}: {why}; with --unchecked it is connected all the same"
        ),
    };
    if settings.has_fee() {
        bail!(
            "{name} has a convenience fee at the card gateway ({} basis points and {}), so a payment of 100.00 would charge more than \
             100.00; take it away there (gateway account set --username {name} --convenience-fee-percent 0 --convenience-fee-fixed 0.00), \
             or connect an account without one",
            settings.convenience_fee_percent,
            settings.convenience_fee_fixed,
        );
    }
    let takes = |currency: &Currency| settings.currencies.iter().any(|code| code == currency.code());
    if let Some(lacking) = currencies.unwrap_or_default().iter().find(|currency| !takes(currency)) {
        bail!("--currency {}: {name} is not paid in it at the card gateway", lacking.code());
    }
    Ok(true)
}

async fn statements(ctl: &Ctl, args: Statements) -> Result<Output> {
    let (provider, read) = (ProviderKind::from(args.provider), matches!(args.read, Switch::On));
    let mut act = ctl.act().await?;
    let provider_account = accounts::read_statements(&mut **act, args.id, provider, read).await?;
    let detail = json!({"provider": provider.name(), "read": read});
    act.commit(&entry("accounts.statements", args.id, provider_account, detail)).await?;
    Ok(Output::new(vec![
        ("id", json!(args.id)),
        ("provider", json!(provider.name())),
        ("provider_account", json!(provider_account)),
        ("statements_read", json!(read)),
    ]))
}

/// What was just changed. The change stands, whether or not it can be read again.
async fn one(ctl: &Ctl, id: AccountId) -> Output {
    let rows = accounts::list(&ctl.db).await.unwrap_or_else(|error| {
        complain(format_args!("ctl: {id} was changed, and could not be read again: {error}"));
        vec![]
    });
    rows.iter().find(|row| row.id == id).map_or_else(|| Output::new(vec![("id", json!(id))]), account)
}

fn account(row: &accounts::AccountRow) -> Output {
    Output::new(vec![
        ("id", json!(row.id)),
        ("merchant", json!(row.merchant_id)),
        ("name", json!(row.name)),
        ("mode", json!(row.mode)),
        ("provider", json!(row.provider)),
        ("timezone", json!(row.timezone)),
        ("partial_capture", json!(row.partial_capture)),
        ("partial_refund", json!(row.partial_refund)),
        ("modifiers", row.modifiers.clone()),
        ("allowed_origins", json!(row.allowed_origins)),
        ("rate_limit", json!(row.rate_limit)),
        ("burst", json!(row.burst)),
        ("email", json!(row.email)),
        ("support_contact", json!(row.support_contact)),
        ("connected", json!(row.connected)),
        ("created_at", json!(row.created_at)),
    ])
}
