-- Why the last node that wanted to go on with a session of nobody could not, and when.
alter table session add column trouble text;
alter table session add column troubled timestamptz;
