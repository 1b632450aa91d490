//! `ctl accounts …`

mod connect;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use domain::accounts::{self, AccountSettings, Mode};
use foundation::config;
use foundation::console::print_error;
use foundation::id::{AccountId, MerchantId};
use foundation::public_url;
use foundation::web_url::WebOrigin;
use operator::BusyAccount;
use providers::ProviderKind;
use serde_json::{Value, json};

use crate::output::Output;
use crate::{Ctl, VerifiedKeys, duration, entry};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create an account with a secret and a publishable key. The secrets are printed only once.
    Create(Create),
    /// Change an account.
    Set(Set),
    /// Store an account's card gateway credentials: a JSON object {username, api_key, secret_key} on standard input, as
    /// printed by `gateway account create` and `rotate-keys`. To route payments there, use `accounts set --provider
    /// card_gateway`.
    Connect(connect::Connect),
    /// Stop reading a provider's statements of an account that has left it, or resume where the reading stopped.
    Statements(Statements),
    /// List accounts, newest first.
    List(List),
    /// Show the accounts with the most recent events, and those whose test clock is being advanced: they cause most
    /// work and most growth of the database.
    Busiest(Busiest),
    /// Show an account's recent payment volume and approval rate by currency, by the account's own clock.
    Volume {
        /// The account (acct_…).
        id: AccountId,
        /// How far back, such as 30m, 6h or 7d. At most the newest 200,000 payments are counted.
        #[arg(long, default_value = "24h", value_parser = duration)]
        last: Duration,
    },
}

#[derive(Args)]
pub(crate) struct List {
    /// Only accounts in this mode.
    #[arg(long, value_enum, ignore_case = true)]
    mode: Option<ModeArg>,
    /// Only accounts whose new payments go to this provider.
    #[arg(long, value_enum, ignore_case = true)]
    provider: Option<ProviderArg>,
    /// Only accounts of this merchant (mer_…).
    #[arg(long)]
    merchant: Option<MerchantId>,
    /// Only accounts whose name contains this text, ignoring case.
    #[arg(long)]
    name: Option<String>,
}

impl List {
    fn matches(&self, row: &accounts::AccountRow) -> bool {
        let named = |part: &String| row.name.to_lowercase().contains(&part.to_lowercase());
        self.mode.is_none_or(|mode| Mode::from(mode) == row.mode)
            && self.provider.is_none_or(|provider| ProviderKind::from(provider) == row.provider)
            && self.merchant.is_none_or(|merchant| merchant == row.merchant_id)
            && self.name.as_ref().is_none_or(named)
    }
}

#[derive(Args)]
pub(crate) struct Busiest {
    /// How far back, such as 30m, 6h or 1d. At most the newest 200,000 events are counted.
    #[arg(long, default_value = "1h", value_parser = duration)]
    last: Duration,
    /// Maximum number of accounts.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=1_000))]
    limit: i64,
}

#[derive(Args)]
pub(crate) struct Statements {
    /// The account (acct_…).
    id: AccountId,
    /// The provider of the statements.
    #[arg(long, value_enum)]
    provider: ProviderArg,
    /// Whether the statements are read from now on.
    #[arg(long, value_enum)]
    read: Switch,
}

#[derive(Args)]
pub(crate) struct Create {
    /// Test or live.
    #[arg(long, value_enum)]
    mode: ModeArg,
    /// The merchant's display name.
    #[arg(long)]
    name: String,
    /// The provider of new payments.
    #[arg(long, value_enum)]
    provider: ProviderArg,
    /// An existing merchant (mer_…), to add the account of its other mode. Default: a new merchant.
    #[arg(long)]
    merchant: Option<MerchantId>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
pub(crate) struct Set {
    /// The account (acct_…).
    id: AccountId,
    /// The merchant's display name.
    #[arg(long)]
    name: Option<String>,
    /// The provider of new payments.
    #[arg(long, value_enum)]
    provider: Option<ProviderArg>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
struct Settings {
    /// IANA time zone name, such as America/New_York. Default: UTC.
    #[arg(long)]
    timezone: Option<String>,
    /// Whether part of an authorization may be captured. Default: on.
    #[arg(long, value_enum)]
    partial_capture: Option<Switch>,
    /// Whether part of a payment may be refunded. Default: on.
    #[arg(long, value_enum)]
    partial_refund: Option<Switch>,
    /// JSON such as {"tax":{"type":"percent","value":825}}: surcharge, tax, tip; percent in basis points.
    #[arg(long, value_parser = parse_json)]
    modifiers: Option<Value>,
    /// An origin that may use the publishable keys, such as https://shop.example, in any spelling; may be repeated,
    /// replaces the list.
    #[arg(long)]
    origin: Option<Vec<WebOrigin>>,
    /// Requests per second allowed for each key.
    #[arg(long, requires = "burst", value_parser = clap::value_parser!(i32).range(1..))]
    rate_limit: Option<i32>,
    /// The e-mail address sent to a provider for a payer without one.
    #[arg(long)]
    email: Option<String>,
    /// The contact for cardholders on receipts, such as "help@shop.example, +1 555 0100"; "" removes it.
    #[arg(long)]
    support_contact: Option<String>,
    /// The merchant's address on payers' pages, mails and documents, at most six lines; "" removes it.
    #[arg(long)]
    address: Option<String>,
    /// The merchant's number for tax, shown with the address; "" removes it.
    #[arg(long)]
    tax_number: Option<String>,
    /// The colour of buttons and links on payers' pages, such as #0b57c4; "" removes it.
    #[arg(long)]
    color: Option<String>,
    /// Requests allowed at once for each key.
    #[arg(long, requires = "rate_limit", value_parser = clap::value_parser!(i32).range(1..))]
    burst: Option<i32>,
    /// Allow a live account at the mock, where no money moves.
    #[arg(long)]
    allow_mock: bool,
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
    Stripe,
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
            ProviderArg::Stripe => Self::Stripe,
        }
    }
}

impl Settings {
    /// The options that were given, for the audit log.
    fn detail(&self, name: Option<&str>, provider: Option<ProviderArg>) -> Value {
        let on = |switch: &Switch| matches!(switch, Switch::On);
        let fields = [
            ("name", json!(name)),
            ("provider", json!(provider.map(|provider| ProviderKind::from(provider).name()))),
            ("timezone", json!(self.timezone)),
            ("partial_capture", json!(self.partial_capture.as_ref().map(on))),
            ("partial_refund", json!(self.partial_refund.as_ref().map(on))),
            ("modifiers", json!(self.modifiers)),
            ("allowed_origins", json!(self.origin)),
            ("rate_limit", json!(self.rate_limit)),
            ("burst", json!(self.burst)),
            ("email", json!(self.email)),
            ("support_contact", json!(self.support_contact)),
            ("address", json!(self.address)),
            ("tax_number", json!(self.tax_number)),
            ("color", json!(self.color)),
            ("allow_mock", json!(self.allow_mock.then_some(true))),
        ];
        Output::new(fields.into()).into_json()
    }

    fn with(self, name: Option<String>, provider: Option<ProviderArg>) -> AccountSettings {
        let on = |switch| matches!(switch, Switch::On);
        AccountSettings {
            name,
            timezone: self.timezone,
            provider: provider.map(Into::into),
            partial_capture: self.partial_capture.map(on),
            partial_refund: self.partial_refund.map(on),
            modifiers: self.modifiers,
            allowed_origins: self.origin,
            rate_limit: self.rate_limit.zip(self.burst),
            email: self.email,
            support_contact: self.support_contact,
            address: self.address,
            tax_number: self.tax_number,
            color: self.color,
            allow_mock: self.allow_mock,
        }
    }
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::Create(create) => self::create(ctl, create).await,
        Command::Set(set) => {
            let (detail, mut tx) = (set.settings.detail(set.name.as_deref(), set.provider), ctl.begin().await?);
            let settings = set.settings.with(set.name, set.provider);
            accounts::set(&mut tx, ctl.clock.now(), set.id, &settings).await?;
            tx.commit(&entry("accounts.set", set.id, set.id, detail)).await?;
            Ok(changed_account(ctl, set.id).await)
        }
        Command::Connect(args) => connect::connect(ctl, args).await,
        Command::Statements(args) => statements(ctl, args).await,
        Command::List(list) => {
            let rows = accounts::list(&ctl.db).await?;
            let rows = rows.iter().filter(|row| list.matches(row)).map(account);
            let columns = &["id", "name", "mode", "provider", "connected", "timezone", "created_at"];
            Ok(Output::list("accounts", rows, columns))
        }
        Command::Busiest(args) => busiest(ctl, args).await,
        Command::Volume { id, last } => {
            let rows = operator::volume::volume_of(&ctl.db, &ctl.clock, id, last).await?;
            let columns =
                &["currency", "payments", "approved", "declined", "failed", "approval_rate", "captured", "refunded"];
            Ok(Output::rows("volume", &rows, columns)?)
        }
    }
}

async fn busiest(ctl: &Ctl, args: Busiest) -> Result<Output> {
    let busiest = operator::busiest_accounts(&ctl.db, args.last, args.limit).await?;
    let fields = vec![
        ("since", json!(busiest.since)),
        ("events", json!(busiest.events)),
        ("more", json!(busiest.more)),
        ("accounts", busiest.accounts.iter().map(|row| busy_account(row).into_json()).collect::<Value>()),
    ];
    Ok(Output::new(fields).table("accounts", &["id", "name", "mode", "events", "clock_at", "clock_target"]))
}

fn busy_account(row: &BusyAccount) -> Output {
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
    // If PUBLIC_URL is not set for this process, the api checks it when it starts.
    if mode == Mode::Live
        && let Some(base) = config::optional("PUBLIC_URL")?
        && !public_url::is_allowed_for_live(&base)
    {
        bail!("PUBLIC_URL must begin with https:// for live accounts, unless it is a loopback address");
    }
    let now = ctl.clock.now();
    let VerifiedKeys { peppers, encryption } = ctl.verified_keys().await?;
    let (provider, mut tx) = (Some(create.provider), ctl.begin().await?);
    let set = create.settings.detail(Some(&create.name), provider);
    let settings = create.settings.with(Some(create.name), provider);
    let id = accounts::create(&mut **tx, now, create.merchant, mode, &settings).await?;
    let secret = accounts::issue_secret(&mut tx, peppers, encryption, now, id, (None, None)).await?;
    let publishable = accounts::issue_publishable(&mut tx, peppers, now, id, (None, None)).await?;
    let detail = json!({"mode": mode, "set": set, "keys": [secret.id, publishable.id]});
    tx.commit(&entry("accounts.create", id, id, detail)).await?;
    Ok(Output::new(vec![
        ("id", json!(id)),
        ("secret_key", json!(secret.key.expose())),
        ("secret_key_id", json!(secret.id)),
        ("publishable_key", json!(publishable.key.expose())),
        ("signing_secret", json!(secret.signing_secret.as_ref().map(|secret| secret.expose()))),
    ]))
}

async fn statements(ctl: &Ctl, args: Statements) -> Result<Output> {
    let (provider, read) = (ProviderKind::from(args.provider), matches!(args.read, Switch::On));
    let mut tx = ctl.begin().await?;
    let provider_account = accounts::set_reconciliation(&mut **tx, args.id, provider, read).await?;
    let detail = json!({"provider": provider.name(), "read": read});
    tx.commit(&entry("accounts.statements", args.id, provider_account, detail)).await?;
    Ok(Output::new(vec![
        ("id", json!(args.id)),
        ("provider", json!(provider.name())),
        ("provider_account", json!(provider_account)),
        ("statements_read", json!(read)),
    ]))
}

/// The account after a change. The change is committed even if the account cannot be read.
async fn changed_account(ctl: &Ctl, id: AccountId) -> Output {
    let rows = accounts::list(&ctl.db).await.unwrap_or_else(|error| {
        print_error(format_args!("ctl: {id} was changed, but could not be read: {error}"));
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
        ("address", json!(row.address)),
        ("tax_number", json!(row.tax_number)),
        ("color", json!(row.color)),
        ("connected", json!(row.connected)),
        ("created_at", json!(row.created_at)),
    ])
}
