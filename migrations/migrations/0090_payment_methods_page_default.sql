-- The default card that a page of saved cards saw which ended with this card, so that the next page keeps its order although
-- the default has changed since. Null if no page has ended here, the nil UUID if there was no default card.
ALTER TABLE payment_methods ADD COLUMN page_default_id uuid;
