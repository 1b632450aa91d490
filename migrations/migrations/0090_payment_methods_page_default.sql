-- Whether a page of a list of saved cards has ended with this card, and the default card that the page saw. So the next
-- page keeps its order although the default has changed since.
ALTER TABLE payment_methods
    ADD COLUMN page_ends_here boolean NOT NULL DEFAULT false,
    ADD COLUMN page_default_id uuid;
ALTER TABLE payment_methods
    ADD CONSTRAINT payment_methods_page_default FOREIGN KEY (account_id, customer_id, page_default_id)
        REFERENCES payment_methods (account_id, customer_id, id) NOT VALID;
