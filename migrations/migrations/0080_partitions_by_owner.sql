-- The programs log in as a role that owns nothing. Partitions are made and dropped on its behalf by the owner of these two functions.
-- Who else may call them is said where roles are granted.
ALTER FUNCTION ensure_monthly_partitions(regclass, timestamptz, integer) SECURITY DEFINER SET search_path = public, pg_temp;
ALTER FUNCTION drop_monthly_partitions(regclass, timestamptz) SECURITY DEFINER SET search_path = public, pg_temp;
