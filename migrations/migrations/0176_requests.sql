-- The requests of a merchant's keys, as the portal shows them for some days. A log without references: it is written in
-- batches, and may lose entries. Cut into nine parts, one per day, of which the next one is emptied ahead of time: no row
-- is deleted by itself.
CREATE TABLE requests (
    account_id  uuid NOT NULL,
    -- As returned in the Request-Id header.
    id          uuid NOT NULL,
    key_id      uuid NOT NULL,
    method      text NOT NULL,
    -- Without the query, which may contain personal data.
    path        text NOT NULL,
    status      smallint NOT NULL,
    -- error.code of the response.
    code        text,
    duration_ms integer NOT NULL,
    -- The days since 1970 by the database's clock, modulo 9.
    slot        smallint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp())::bigint / 86400 % 9),
    PRIMARY KEY (account_id, id, slot)
) PARTITION BY LIST (slot);

CREATE TABLE requests_0 PARTITION OF requests FOR VALUES IN (0);
CREATE TABLE requests_1 PARTITION OF requests FOR VALUES IN (1);
CREATE TABLE requests_2 PARTITION OF requests FOR VALUES IN (2);
CREATE TABLE requests_3 PARTITION OF requests FOR VALUES IN (3);
CREATE TABLE requests_4 PARTITION OF requests FOR VALUES IN (4);
CREATE TABLE requests_5 PARTITION OF requests FOR VALUES IN (5);
CREATE TABLE requests_6 PARTITION OF requests FOR VALUES IN (6);
CREATE TABLE requests_7 PARTITION OF requests FOR VALUES IN (7);
CREATE TABLE requests_8 PARTITION OF requests FOR VALUES IN (8);

CREATE INDEX requests_refused ON requests (account_id, id) WHERE status >= 400;

-- Empties the part of tomorrow, and returns whether it had rows. The programs own no table.
CREATE FUNCTION clear_oldest_requests() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    part text := 'requests_' || (extract(epoch FROM clock_timestamp())::bigint / 86400 + 1) % 9;
    has_rows boolean;
BEGIN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I)', part) INTO has_rows;
    IF has_rows THEN
        EXECUTE format('TRUNCATE %I', part);
    END IF;
    RETURN has_rows;
END
$$;
