//! `ctl users …`

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use domain::audit::Entry;
use domain::users::{self, Role};
use foundation::crypto::{Secret, random_hex};
use foundation::id::{MerchantId, UserId};
use serde_json::json;

use crate::Ctl;
use crate::output::Output;

/// Bytes of a password that is generated.
const PASSWORD_BYTES: usize = 12;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create a person who signs in to the portal. The password is printed only once.
    Create(Create),
    /// Remove a user. The user's sessions end at once; what the user did stays in the log.
    Remove {
        /// The user (usr_…).
        id: UserId,
    },
    /// Give a user a new password, which is printed only once. The second factor and the
    /// passkeys are removed, and the sessions end.
    ResetPassword {
        /// The user (usr_…).
        id: UserId,
    },
    /// List the users, by e-mail address.
    List {
        /// Only users of this merchant (mer_…).
        #[arg(long)]
        merchant: Option<MerchantId>,
    },
}

#[derive(Args)]
pub(crate) struct Create {
    /// The merchant (mer_…), as listed by `ctl accounts list`. The user works in its test and live accounts.
    #[arg(long)]
    merchant: MerchantId,
    /// The e-mail address to sign in with.
    #[arg(long)]
    email: String,
    /// What the user may do.
    #[arg(long, value_enum, ignore_case = true)]
    role: RoleArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum RoleArg {
    /// Everything.
    Owner,
    /// Everything but settings, the team and the erasure of customers.
    Developer,
    /// Payments, customers and billing.
    Support,
    /// Reads only.
    Viewer,
}

impl From<RoleArg> for Role {
    fn from(arg: RoleArg) -> Self {
        match arg {
            RoleArg::Owner => Self::Owner,
            RoleArg::Developer => Self::Developer,
            RoleArg::Support => Self::Support,
            RoleArg::Viewer => Self::Viewer,
        }
    }
}

fn entry(action: &'static str, user: UserId) -> Entry {
    Entry { action, account: None, object: Some(user.to_string()), detail: json!({}) }
}

pub(crate) async fn run(ctl: &Ctl, command: Command) -> Result<Output> {
    match command {
        Command::Create(Create { merchant, email, role }) => {
            let (password, mut tx) = (random_hex(PASSWORD_BYTES), ctl.begin().await?);
            let secret = Secret::new(password.clone());
            let id = users::create(&mut tx, ctl.clock.now(), merchant, &email, role.into(), secret).await?;
            let detail = json!({"merchant": merchant, "role": Role::from(role)});
            tx.commit(&Entry { action: "users.create", account: None, object: Some(id.to_string()), detail }).await?;
            Ok(Output::new(vec![("id", json!(id)), ("email", json!(email)), ("password", json!(password))]))
        }
        Command::Remove { id } => {
            let mut tx = ctl.begin().await?;
            users::remove(&mut tx, ctl.clock.now(), None, id).await?;
            tx.commit(&entry("users.remove", id)).await?;
            Ok(Output::new(vec![("id", json!(id)), ("removed", json!(true))]))
        }
        Command::ResetPassword { id } => {
            let (password, mut tx) = (random_hex(PASSWORD_BYTES), ctl.begin().await?);
            users::set_password(&mut tx, id, Secret::new(password.clone())).await?;
            tx.commit(&entry("users.reset_password", id)).await?;
            Ok(Output::new(vec![("id", json!(id)), ("password", json!(password))]))
        }
        Command::List { merchant } => {
            let rows = users::list(&*ctl.db, merchant).await?;
            let rows = rows.into_iter().map(|row| {
                Output::new(vec![
                    ("id", json!(row.id)),
                    ("merchant", json!(row.merchant_id)),
                    ("email", json!(row.email)),
                    ("role", json!(row.role)),
                    ("created_at", json!(row.created_at)),
                    ("removed_at", json!(row.removed_at)),
                ])
            });
            Ok(Output::list("users", rows, &["id", "merchant", "email", "role", "created_at", "removed_at"]))
        }
    }
}
