-- What the portal's first page shows of the present: invoices that are due, by the day on which they are (in UTC), active
-- subscriptions with what they bring per month, and disputes that need a response. These are sums, so that reading them costs
-- the same whatever the number of objects.
CREATE TABLE standing_figures (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts (id),
    kind       text NOT NULL CHECK (kind IN ('invoices', 'subscriptions', 'disputes')),
    currency   text NOT NULL,
    -- Of invoices only; otherwise infinity.
    day        date NOT NULL,
    count      bigint NOT NULL,
    -- In minor units.
    amount     numeric NOT NULL,
    CONSTRAINT standing_figures_of_account UNIQUE (account_id, kind, currency, day)
);
-- They are deleted.
CREATE INDEX standing_figures_zero ON standing_figures (id) WHERE count = 0;

-- What transactions have added to these sums and subtracted from them since the scheduler last moved it there. A row of its own
-- for each change, so that no transaction waits for another one of the account. Triggers write it, so that no statement can
-- forget it; the objects have the foreign key to the account.
CREATE TABLE standing_figure_changes (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id uuid NOT NULL,
    kind       text NOT NULL,
    currency   text NOT NULL,
    day        date NOT NULL,
    count      bigint NOT NULL,
    amount     numeric NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX standing_figure_changes_of_account ON standing_figure_changes (account_id);

-- What a subscription brings per month, in minor units.
CREATE FUNCTION monthly_amount(amount bigint, unit plan_interval, units integer) RETURNS numeric LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT round(amount * CASE unit WHEN 'day' THEN 365 / 12.0 WHEN 'week' THEN 365 / 84.0 WHEN 'month' THEN 1 ELSE 1 / 12.0 END / units)
$$;

-- Once for each statement, because invoices and subscriptions are billed in batches. As the owner: programs may write before
-- `migrate` has granted them the privileges.
CREATE FUNCTION count_due_invoices() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM written) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO standing_figure_changes (account_id, kind, currency, day, count, amount)
        SELECT account_id, 'invoices', currency, coalesce((due_at AT TIME ZONE 'UTC')::date, 'infinity'), count(*), sum(amount)
        FROM written WHERE status IN ('open', 'scheduled') GROUP BY 1, 3, 4;
    ELSE
        INSERT INTO standing_figure_changes (account_id, kind, currency, day, count, amount)
        SELECT account_id, 'invoices', currency, coalesce((due_at AT TIME ZONE 'UTC')::date, 'infinity'), sum(sign), sum(sign * amount)
        FROM (SELECT account_id, currency, due_at, amount, 1 AS sign FROM written WHERE status IN ('open', 'scheduled')
            UNION ALL SELECT account_id, currency, due_at, amount, -1 FROM former WHERE status IN ('open', 'scheduled')) changed
        GROUP BY 1, 3, 4 HAVING sum(sign) <> 0 OR sum(sign * amount) <> 0;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION count_active_subscriptions() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM written) THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO standing_figure_changes (account_id, kind, currency, day, count, amount)
        SELECT p.account_id, 'subscriptions', p.currency, 'infinity', s.count,
            s.count * monthly_amount(p.amount, p."interval", p.interval_count)
        FROM (SELECT account_id, plan_id, count(*) FROM written WHERE status = 'active' GROUP BY 1, 2) s
        JOIN plans p ON p.account_id = s.account_id AND p.id = s.plan_id;
    ELSE
        INSERT INTO standing_figure_changes (account_id, kind, currency, day, count, amount)
        SELECT p.account_id, 'subscriptions', p.currency, 'infinity', s.count,
            s.count * monthly_amount(p.amount, p."interval", p.interval_count)
        FROM (SELECT account_id, plan_id, sum(sign) AS count
            FROM (SELECT account_id, plan_id, 1 AS sign FROM written WHERE status = 'active'
                UNION ALL SELECT account_id, plan_id, -1 FROM former WHERE status = 'active') changed
            GROUP BY 1, 2 HAVING sum(sign) <> 0) s
        JOIN plans p ON p.account_id = s.account_id AND p.id = s.plan_id;
    END IF;
    RETURN NULL;
END $$;

-- Disputes are few.
CREATE FUNCTION count_open_dispute() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    sign integer := CASE NEW.status WHEN 'needs_response' THEN 1 ELSE -1 END;
BEGIN
    INSERT INTO standing_figure_changes (account_id, kind, currency, day, count, amount)
    VALUES (NEW.account_id, 'disputes', NEW.currency, 'infinity', sign, sign * NEW.amount);
    RETURN NULL;
END $$;
