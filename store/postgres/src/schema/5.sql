-- Whether an operator has asked the node to give its sessions back and end.
alter table node add column draining boolean not null default false;
