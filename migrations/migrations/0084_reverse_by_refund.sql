-- Returns a charge that belongs to no payment and has settled, so that it can no longer be voided.
-- upgrade: the previous version does not claim operations of kinds that it does not know.
ALTER TYPE operation_kind ADD VALUE IF NOT EXISTS 'reverse_by_refund';
