-- The responses to be erased with a customer. The account is not in the index: with it, the primary key serves the search
-- as well, and statistics from before the table grew make reading all deliveries of the account look as cheap.
CREATE INDEX webhook_deliveries_response_of_event ON ONLY webhook_deliveries (event_id) WHERE response_body IS NOT NULL;
-- upgrade: until the index above is built for each partition, deleting a customer with many events may time out.
DROP INDEX webhook_deliveries_with_response;
