//! The command line: `gateway serve`, `gateway migrate`, and what an operator does with accounts.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use common::calendar::TimeZone;
use common::clock::Clock;
use common::{db, server, telemetry};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accounts::{self, Account, CURRENCIES, Keys, Settings, Vaulting};
use crate::acquirer::Acquirer;
use crate::amount::Amount;
use crate::app::App;
use crate::cards::Brand;
use crate::http::public::Crowd;
use crate::http::pulse::Pulse;
use crate::{config, http, migrations, sweep};

/// Connections to Postgres per process. One more is kept for the acquirer's books for every four.
const DATABASE_POOL: u32 = 16;

#[derive(Parser)]
#[command(name = "gateway", about = "The card gateway")]
struct Cli {
    /// Without one it serves.
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer requests until told to stop.
    Serve,
    /// Bring the schema up, and end.
    Migrate,
    /// Merchants' accounts. Each prints one JSON object.
    #[command(subcommand)]
    Account(AccountCommand),
}

#[derive(Subcommand)]
enum AccountCommand {
    /// Make an account. Its keys are shown this once.
    Create(Create),
    /// Change what is set for an account.
    Set(Create),
    /// Give an account new keys; the former ones end at once.
    RotateKeys {
        /// The user name.
        #[arg(long)]
        username: String,
    },
    /// Every account.
    List,
}

#[derive(Args)]
struct Create {
    /// By which the merchant names itself: 3 to 64 letters, digits, points, hyphens, underscores.
    #[arg(long)]
    username: String,
    /// Shown to cardholders; the user name by default.
    #[arg(long)]
    name: Option<String>,
    /// IANA time zone name. UTC by default.
    #[arg(long)]
    time_zone: Option<TimeZone>,
    /// A currency it may be paid in; may be repeated. All eleven by default.
    #[arg(long = "currency", value_parser = currency)]
    currencies: Option<Vec<String>>,
    /// A card brand that no processor takes for it (code 11); may be repeated, `none` takes all.
    #[arg(long = "refuse-brand", value_parser = brand)]
    refused_brands: Option<Vec<Option<Brand>>>,
    /// Whether a sale must bring the security code. No by default.
    #[arg(long)]
    cvv_required: Option<bool>,
    /// Whether cards may be challenged by 3-D Secure. Yes by default.
    #[arg(long)]
    three_ds: Option<bool>,
    /// Whether a card that cannot be authenticated is declined. No by default.
    #[arg(long)]
    deny_unauthenticated: Option<bool>,
    /// Code 17: the largest transaction, such as 10000.00.
    #[arg(long, value_parser = limit)]
    sale_limit: Option<Amount>,
    /// Code 18: sales and authorizations of a month, in each currency.
    #[arg(long, value_parser = limit)]
    monthly_limit: Option<Amount>,
    /// Code 19: transactions of a day.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    daily_transactions: Option<i32>,
    /// Code 20: transactions of an hour from one address.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..))]
    hourly_per_address: Option<i32>,
}

fn currency(text: &str) -> Result<String, String> {
    let upper = text.to_ascii_uppercase();
    if CURRENCIES.contains(&upper.as_str()) { Ok(upper) } else { Err(format!("one of {}", CURRENCIES.join(", "))) }
}

fn brand(text: &str) -> Result<Option<Brand>, String> {
    match text {
        "none" => Ok(None),
        text => Brand::parse(text).map(Some).ok_or_else(|| "not a card brand".to_owned()),
    }
}

fn limit(text: &str) -> Result<Amount, String> {
    let amount = text.parse::<Amount>().map_err(|_| "not an amount such as 10000.00".to_owned())?;
    if amount > Amount::ZERO { Ok(amount) } else { Err("more than nothing".to_owned()) }
}

impl Create {
    fn settings(&self) -> Settings {
        Settings {
            name: self.name.clone(),
            time_zone: self.time_zone.clone(),
            currencies: self.currencies.clone(),
            refused_brands: self.refused_brands.as_ref().map(|brands| brands.iter().flatten().copied().collect()),
            cvv_required: self.cvv_required,
            three_ds: self.three_ds,
            deny_unauthenticated: self.deny_unauthenticated,
            sale_limit: self.sale_limit.map(Amount::get),
            monthly_limit: self.monthly_limit.map(Amount::get),
            daily_transactions: self.daily_transactions,
            hourly_per_address: self.hourly_per_address,
        }
    }
}

/// Does what the arguments of the process say.
///
/// # Errors
/// Whatever kept it from being done.
pub async fn run() -> Result<()> {
    match Cli::parse().command.unwrap_or(Command::Serve) {
        Command::Serve => serve().await,
        Command::Migrate => {
            migrations::run(common::config::database_url()?.expose()).await?;
            println!("the schema is up to date");
            Ok(())
        }
        Command::Account(command) => account(command).await,
    }
}

async fn serve() -> Result<()> {
    telemetry::init_logs();
    let metrics = telemetry::init_metrics()?;
    let url = common::config::database_url()?;
    let pool = db::pool(&url, common::config::database_pool(DATABASE_POOL)?, "gateway")?;
    // The acquirer is elsewhere: it shares no connection with what asks it.
    let books = db::pool(&url, DATABASE_POOL / 4, "acquirer")?;
    let app = App {
        db: pool.clone(),
        acquirer: Acquirer::new(books, config::acquirer_delay()?),
        vaulting: vaulting()?,
        clock: Clock::system(),
        public_url: config::public_url()?.into(),
        crowd: Arc::new(Crowd::new(config::public_rate()?)),
        work: TaskTracker::new(),
        pulse: Pulse::default(),
    };

    let stopped = telemetry::shutdown_signal();
    let internal = telemetry::Internal::new(pool, metrics);
    let metrics_bind = common::config::metrics_bind()?;
    let metrics_address = internal.clone().serve(metrics_bind).await.context("METRICS_BIND")?;
    let listener = TcpListener::bind(config::bind()?).await.context("GATEWAY_BIND")?;
    tracing::info!(address = %listener.local_addr()?, metrics = %metrics_address, "gateway is listening");

    let stop = CancellationToken::new();
    let housekeeping = TaskTracker::new();
    housekeeping.spawn(sweep::run(app.clone(), stop.clone()));
    // Ends with the process: it holds nothing.
    let pulse = housekeeping.spawn(app.pulse.clone().run());
    let draining = async move {
        stopped.await;
        tracing::info!("gateway is stopping: requests in flight are answered, new ones are not taken");
        internal.drain();
    };
    let work = app.work.clone();
    server::serve(listener, http::router(app), draining).await;
    // Those whose callers have hung up.
    work.close();
    work.wait().await;
    stop.cancel();
    pulse.abort();
    housekeeping.close();
    housekeeping.wait().await;
    tracing::info!("gateway has stopped");
    Ok(())
}

fn vaulting() -> Result<Vaulting> {
    Ok(Vaulting { pepper: config::pepper()?, card_key: config::card_key()? })
}

async fn account(command: AccountCommand) -> Result<()> {
    let db = db::pool(&common::config::database_url()?, 2, "gateway")?;
    let shown = match command {
        AccountCommand::Create(create) => {
            let now = Clock::system().now();
            let keys = accounts::create(&db, &vaulting()?, &create.username, &create.settings(), now).await;
            let keys = keys.context("cannot make the account; a user name is taken once")?;
            keys_of(&create.username, &keys)
        }
        AccountCommand::Set(set) => {
            if !accounts::set(&db, &set.username, &set.settings()).await? {
                bail!("there is no account {}", set.username);
            }
            one(&db, &set.username).await?
        }
        AccountCommand::RotateKeys { username } => {
            let keys = accounts::rotate_keys(&db, &vaulting()?, &username).await?;
            keys_of(&username, &keys.with_context(|| format!("there is no account {username}"))?)
        }
        AccountCommand::List => json!({"accounts": accounts::list(&db).await?.iter().map(shown).collect::<Vec<_>>()}),
    };
    println!("{shown}");
    Ok(())
}

async fn one(db: &PgPool, username: &str) -> Result<Value> {
    let all = accounts::list(db).await?;
    all.iter().find(|account| account.username == username).map(shown).context("the account is gone")
}

fn keys_of(username: &str, keys: &Keys) -> Value {
    json!({
        "username": username,
        "api_key": keys.api_key.expose(),
        "secret_key": keys.secret_key.expose(),
        "app_key": keys.app_key,
    })
}

fn shown(account: &Account) -> Value {
    json!({
        "username": account.username,
        "name": account.name,
        "app_key": account.app_key,
        "time_zone": account.time_zone,
        "currencies": account.currencies,
        "refused_brands": account.refused_brands,
        "cvv_required": account.cvv_required,
        "three_ds": account.three_ds,
        "deny_unauthenticated": account.deny_unauthenticated,
        "sale_limit": Amount::hundredths(account.sale_limit),
        "monthly_limit": Amount::hundredths(account.monthly_limit),
        "daily_transactions": account.daily_transactions,
        "hourly_per_address": account.hourly_per_address,
        "created_at": account.created_at,
    })
}
