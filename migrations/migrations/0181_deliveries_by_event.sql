-- The deliveries of an event, for the history of an object and for the responses that are erased with a customer.
CREATE INDEX webhook_deliveries_of_event ON ONLY webhook_deliveries (event_id);
-- upgrade: until the index above is built for each partition, deleting a customer with many events may time out.
DROP INDEX webhook_deliveries_response_of_event;

-- The words of a customer's name, each after the account, so that one index finds an account's customers by any word.
CREATE FUNCTION customer_name_words(account uuid, name text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT array_agg(account || ':' || word)
    FROM regexp_split_to_table(lower(name), '[[:space:][:punct:]]+') AS word WHERE word <> ''
$$;

-- Matches names with a word that begins with each of these; none if there is no word.
CREATE FUNCTION customer_name_query(account uuid, words text) RETURNS tsquery LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT string_agg('''' || word || ''':*', ' & ')::tsquery FROM unnest(customer_name_words(account, words)) AS word
$$;
