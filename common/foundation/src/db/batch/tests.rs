use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::postgres::PgPoolOptions;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{pause, sleep};

use super::super::lost_connection;
use super::*;

/// Records the batches that a batcher executes. Each waits for a permit.
#[derive(Clone)]
struct Recorder {
    batches: Arc<Mutex<Vec<Vec<u32>>>>,
    permits: Arc<Semaphore>,
}

impl Recorder {
    fn start() -> (Self, Batcher<u32, u32>) {
        let recorder = Self { batches: Arc::default(), permits: Arc::new(Semaphore::new(0)) };
        let own = recorder.clone();
        let batcher = Batcher::spawn(move |items: Vec<u32>, callers| {
            let own = own.clone();
            async move {
                own.batches.lock().unwrap().push(items.clone());
                own.permits.acquire().await.unwrap().forget();
                let mut outputs = items.iter().map(|item| item * 10);
                respond(callers, || Ok(outputs.next().unwrap()));
            }
        });
        (recorder, batcher)
    }

    fn batches(&self) -> Vec<Vec<u32>> {
        self.batches.lock().unwrap().clone()
    }
}

async fn call_all<I: Send + Sync + 'static, O: Send + 'static>(
    batcher: &Batcher<I, O>,
    items: impl IntoIterator<Item = I>,
) -> Vec<sqlx::Result<O>> {
    join_all(items.into_iter().map(|item| batcher.call(item))).await
}

#[tokio::test(start_paused = true)]
async fn an_idle_batcher_executes_a_call_at_once_and_later_calls_accumulate_up_to_the_limit() {
    let (recorder, batcher) = Recorder::start();
    let later = async {
        sleep(SLOW / 10).await;
        call_all(&batcher, 2..=100).await
    };
    let checks = async {
        sleep(SLOW / 2).await;
        assert_eq!(recorder.batches(), [vec![1]], "the first call waits for no other");
        recorder.permits.add_permits(3);
    };
    let (first, later, ()) = tokio::join!(batcher.call(1), later, checks);
    let results: Vec<_> = later.into_iter().map(|result| result.unwrap()).collect();
    assert_eq!(first.unwrap(), 10);
    assert_eq!(results, (2..=100).map(|item| item * 10).collect::<Vec<_>>(), "each caller gets its own result");
    assert_eq!(recorder.batches(), [vec![1], (2..=65).collect(), (66..=100).collect()]);
}

/// On the only worker, which would otherwise begin with the callers that it runs first.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn callers_that_are_woken_together_share_a_batch() {
    let (recorder, batcher) = Recorder::start();
    recorder.permits.add_permits(1);
    let mut outer = JoinSet::new();
    outer.spawn(async move {
        let (batcher, mut callers) = (Arc::new(batcher), JoinSet::new());
        for item in 1..=20 {
            let batcher = Arc::clone(&batcher);
            callers.spawn(async move { batcher.call(item).await.unwrap() });
        }
        callers.join_all().await
    });
    assert_eq!(outer.join_all().await[0].len(), 20);
    let sizes: Vec<_> = recorder.batches().iter().map(Vec::len).collect();
    assert_eq!(sizes, [20]);
}

#[tokio::test]
async fn the_calls_that_are_added_respect_the_limit() {
    let (calls, mut accumulated) = mpsc::channel(CAPACITY);
    for call in 0..100 {
        calls.try_send(call).unwrap();
    }
    let mut batch = vec![0];
    add_runnable(&mut accumulated, &mut batch).await;
    assert_eq!(batch.len(), LIMIT);
}

#[tokio::test]
async fn a_batch_does_not_wait_for_callers_that_keep_arriving() {
    let (recorder, batcher) = Recorder::start();
    recorder.permits.add_permits(100);
    let (batcher, mut callers) = (Arc::new(batcher), JoinSet::new());
    for item in 1..=100 {
        let batcher = Arc::clone(&batcher);
        callers.spawn(async move {
            for _ in 0..item {
                yield_now().await;
            }
            batcher.call(item).await.unwrap()
        });
    }
    assert_eq!(callers.join_all().await.len(), 100);
    assert!(recorder.batches()[0].len() < 10, "{:?}", recorder.batches());
}

#[tokio::test(start_paused = true)]
async fn a_slow_batch_does_not_hold_up_the_next() {
    let (recorder, batcher) = Recorder::start();
    let calls = async {
        let calls = (1..=9).map(async |item| {
            sleep(SLOW * item * 2).await;
            batcher.call(item).await
        });
        join_all(calls).await
    };
    let checks = async {
        sleep(SLOW * 20).await;
        assert_eq!(recorder.batches(), [[1], [2], [3], [4]], "at most {CONCURRENCY} at the same time");
        recorder.permits.add_permits(9);
    };
    tokio::join!(calls, checks);
    assert_eq!(recorder.batches()[4], [5, 6, 7, 8, 9], "the others accumulated");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_executed_only_if_its_batch_has_begun() {
    let (recorder, batcher) = Recorder::start();
    let cancelled = async |item| timeout(Duration::from_millis(10), batcher.call(item)).await.unwrap_err();
    cancelled(1).await;
    cancelled(2).await;
    recorder.permits.add_permits(2);
    assert_eq!(batcher.call(3).await.unwrap(), 30);
    assert_eq!(recorder.batches(), [vec![1], vec![3]]);
}

#[tokio::test]
async fn a_panic_fails_its_callers_only() {
    let batcher = Batcher::spawn(|items: Vec<u32>, callers| async move {
        assert_ne!(items, [1], "expected by this test");
        respond(callers, || Ok(2));
    });
    assert!(matches!(batcher.call(1).await, Err(sqlx::Error::WorkerCrashed)));
    assert_eq!(batcher.call(2).await.unwrap(), 2);
}

/// A pool of one connection to a database of its own.
async fn pool() -> (testkit::Database, PgPool) {
    let database = testkit::Database::create().await.unwrap();
    let options = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = options.connect(database.url()).await.unwrap();
    (database, pool)
}

#[tokio::test]
async fn a_rejected_item_does_not_fail_the_others_of_its_batch() {
    let (_database, pool) = pool().await;
    sqlx::query("CREATE TABLE written (n integer PRIMARY KEY)").execute(&pool).await.unwrap();
    let batcher = Batcher::start("test", pool, |db, items: &[i32]| {
        let insert = "INSERT INTO written SELECT 60 / n FROM unnest($1) AS n RETURNING n";
        Box::pin(sqlx::query_scalar::<_, i32>(insert).bind(items).fetch_all(db))
    });
    let results = call_all(&batcher, [1, 0, 3]).await;
    assert!(matches!(results[..], [Ok(60), Err(_), Ok(20)]), "{results:?}");
    assert!(results[1].as_ref().is_err_and(|error| error.as_database_error().is_some()), "Postgres's own error");
}

#[tokio::test]
async fn an_output_that_cannot_be_decoded_fails_its_own_item_only() {
    let (_database, pool) = pool().await;
    let batcher = Batcher::start("test", pool, |db, items: &[i32]| {
        Box::pin(sqlx::query_scalar("SELECT nullif(n, 2) FROM unnest($1) AS n").bind(items).fetch_all(db))
    });
    let results: Vec<sqlx::Result<i32>> = call_all(&batcher, [1, 2, 3]).await;
    assert!(matches!(results[..], [Ok(1), Err(sqlx::Error::ColumnDecode { .. }), Ok(3)]), "{results:?}");
}

#[tokio::test]
async fn a_result_does_not_wait_for_items_executed_after_it() {
    let (_database, pool) = pool().await;
    let batcher = Batcher::start("test", pool, |db, items: &[i32]| {
        let slow =
            "SELECT n / n FROM unnest($1) AS n, pg_sleep(CASE WHEN cardinality($1) = 1 AND n = 3 THEN 60 ELSE 0 END)";
        Box::pin(sqlx::query_scalar::<_, i32>(slow).bind(items).fetch_all(db))
    });
    let (first, second, third) = (batcher.call(1), batcher.call(0), batcher.call(3));
    tokio::select! {
        biased;
        (first, second) = async { tokio::join!(first, second) } => assert!(first.is_ok() && second.is_err()),
        _ = third => panic!("it sleeps for a minute"),
    }
}

#[tokio::test]
async fn no_call_is_executed_twice_after_a_lost_connection() {
    let (_database, pool) = pool().await;
    let executions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executions);
    let batcher: Batcher<i32, bool> = Batcher::start("test", pool, move |db, _: &[i32]| {
        counter.fetch_add(1, Ordering::Relaxed);
        Box::pin(sqlx::query_scalar("SELECT pg_terminate_backend(pg_backend_pid())").fetch_all(db))
    });
    for result in call_all(&batcher, 1..=3).await {
        assert!(matches!(result, Err(sqlx::Error::Io(_))), "every call is ambiguous: {result:?}");
    }
    assert_eq!(executions.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn no_call_is_executed_on_a_connection_that_postgres_closes() {
    let (_database, pool) = pool().await;
    let executions = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executions);
    let batcher: Batcher<i32, bool> = Batcher::start("test", pool.clone(), move |db, _: &[i32]| {
        counter.fetch_add(1, Ordering::Relaxed);
        let idle = "DO $$ BEGIN RAISE EXCEPTION 'as after idle_in_transaction_session_timeout' USING ERRCODE = '25P03'; END $$";
        Box::pin(sqlx::query_scalar(idle).fetch_all(db))
    });
    for result in call_all(&batcher, 1..=3).await {
        assert!(matches!(result, Err(sqlx::Error::Io(_))), "every call is ambiguous: {result:?}");
    }
    assert_eq!((executions.load(Ordering::Relaxed), pool.size()), (1, 0));
}

#[tokio::test]
async fn of_items_executed_alone_those_after_a_lost_connection_are_certainly_not_executed() {
    let (_database, pool) = pool().await;
    let batcher = Batcher::start("test", pool, |db, items: &[i32]| {
        let divide = "SELECT CASE WHEN cardinality($1) = 1 AND n = 2 THEN pg_terminate_backend(pg_backend_pid())::int ELSE 6 / (n - 3) END
                      FROM unnest($1) AS n";
        Box::pin(sqlx::query_scalar::<_, i32>(divide).bind(items).fetch_all(db))
    });
    let results = call_all(&batcher, [1, 2, 3, 4]).await;
    let [Ok(-3), Err(lost), Err(sqlx::Error::PoolTimedOut), Err(sqlx::Error::PoolTimedOut)] = &results[..] else {
        panic!("{results:?}")
    };
    assert!(lost_connection(lost));
}

#[tokio::test]
async fn a_statement_without_response_is_ambiguous_and_its_connection_is_closed() {
    let (_database, pool) = pool().await;
    let batcher: Batcher<i32, i32> = Batcher::start("test", pool.clone(), |_, items: &[i32]| match items {
        [1] => Box::pin(pending()),
        _ => Box::pin(async { Ok(vec![2]) }),
    });
    pause();
    assert!(matches!(batcher.call(1).await, Err(sqlx::Error::Io(_))));
    tokio::time::resume();
    assert_eq!(pool.size(), 0);
    assert_eq!(batcher.call(2).await.unwrap(), 2, "a new connection takes its place");
}

#[tokio::test]
async fn a_batch_without_a_connection_is_certainly_not_executed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://nobody@{}/none", listener.local_addr().unwrap());
    let closing = async {
        while let Ok((connection, _)) = listener.accept().await {
            drop(connection);
        }
    };
    let batcher: Batcher<i32, i32> = Batcher::start("test", PgPool::connect_lazy(&url).unwrap(), |_, _: &[i32]| {
        Box::pin(async { panic!("not sent") })
    });
    let results = async {
        for result in call_all(&batcher, 1..=3).await {
            assert!(matches!(result, Err(sqlx::Error::PoolTimedOut)), "{result:?}");
        }
    };
    tokio::select! {
        () = results => {}
        () = closing => {}
    }
}
