//! Reading rows for requests and workers that wait for them.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use sqlx::{PgConnection, PgPool};

use super::batch::{Batcher, Executed, column};
use crate::error::{Error, Result};
use crate::id::AccountId;

/// Reads objects of one kind by their ids. Those that are requested together are read with one statement.
pub struct Reader<I, T> {
    kind: &'static str,
    batches: Batcher<(AccountId, I), Option<T>>,
}

impl<I, T> Reader<I, T>
where
    I: Copy + Display + Eq + Hash + Send + Sync + 'static,
    T: Clone + Send + 'static,
{
    /// `find` returns those of the objects that exist, of any account, and `id` the account and id of one. Must be
    /// called inside a Tokio runtime.
    pub fn start<F>(kind: &'static str, pool: PgPool, find: F, id: fn(&T) -> (AccountId, I)) -> Self
    where
        F: for<'a> Fn(&'a mut PgConnection, &'a [I]) -> Executed<'a, T> + Copy + Send + Sync + 'static,
    {
        let batches = Batcher::start("reads", pool, move |db, wanted: &[(AccountId, I)]| {
            Box::pin(async move {
                let ids = column(wanted, |(_, id)| *id);
                let found: HashMap<_, _> = find(db, &ids).await?.into_iter().map(|found| (id(&found), found)).collect();
                Ok(wanted.iter().map(|wanted| found.get(wanted).cloned()).collect())
            })
        });
        Self { kind, batches }
    }

    /// Returns an object.
    ///
    /// # Errors
    /// [`Error::NotFound`], also if it belongs to another account.
    pub async fn retrieve(&self, account: AccountId, id: I) -> Result<T> {
        self.batches.call((account, id)).await?.ok_or_else(|| Error::no_such(self.kind, id))
    }
}
