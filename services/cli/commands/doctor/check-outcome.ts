// The results of `fleet doctor`. A code is stable, so that scripts and the manual can name it.

/** What each check is about, and what a problem of it means for the fleet, unless the problem has a meaning of its own. */
export const CHECKS = {
  "bus.connection":
    "Without the bus nothing works: agents keep their commands in a spool on their own disks.",
  "bus.credentials": "Every program that reaches the bus may act as any agent, and read all work.",
  "bus.version": "Older servers lack fixes for streams that are lost or damaged in a crash.",
  "bus.sync":
    "A bus that acknowledges before it has written loses queued commands and events in a power cut, although their senders believe them stored.",
  "bus.streams": "Commands, events or offers that belong into this stream are delayed, refused or lost.",
  "bus.replicas": "With fewer current copies, the loss of one server loses messages or stops the stream.",
  "bus.storage": "A bus without room refuses commands, and drops its oldest events.",
  "bus.consumers": "The work of this consumer is late: recoveries, handoffs, alerts or queued commands.",
  "encryption.bus": "Without TLS every machine on the way reads and changes the work of the agents.",
  "encryption.listener":
    "A listener that reads clear text accepts clients whose work and keys others can read on the way.",
  "encryption.store": "Without TLS every machine on the way reads all records, and can write as a service.",
  "encryption.rows": "A program that can read the disk of the store, or a copy of it, can read all work.",
  "encryption.files": "A copy of the disk, or a lost one, shows the work of the agents in these files.",
  "services.running": "A part of the fleet's work is not done while no instance of this service runs.",
  "services.answers":
    "An instance that is connected and silent is frozen, overloaded or of an older version.",
  "services.version": "Services of different versions refuse or ignore what the newer ones write.",
  "services.rights": "The service cannot do a part of its work, because its credentials do not permit it.",
  "signing.services":
    "What a service without a key writes is not signed; services with different keys have several to keep and to revoke.",
  "signing.files": "A program that has the private key can sign entries in the name of the service.",
  "signing.required": "Entries without signatures are no findings, so a program can take signatures away.",
  "signing.keys":
    "The longer a key is in use, the more a copy of it signs, and the more a revocation concerns.",
  "signing.anchors":
    "Only copies of the audit log outside the fleet, with a time that others vouch for, show that it was written again with the fleet's own key.",
  "access.log":
    "Reads of content and refused requests that are not in the access log cannot be accounted for later.",
  "store.health": "Commands wait in the queue of the bus, and queries fail, until the store answers.",
  "store.cluster": "FoundationDB works worse than it is configured to, or is about to stop.",
  "clocks.services":
    "Leases, deadlines and times in the audit trail are wrong by the difference of the clocks.",
  "clocks.bus": "The age of messages is wrong: streams drop or keep messages at the wrong time.",
  "disks.services": "Without room the fleet refuses commands.",
  "machine.disk": "Without room this machine can neither keep a fleet's data nor spool commands of agents.",
  "machine.permissions": "Other users of this machine can read the work or the keys, or change them.",
  "machine.persons": "A decision of two persons is that of one where the same user can act under both names.",
  "machine.spool": "These commands have not reached their fleet: its records do not have this work yet.",
} as const;

export type CheckCode = keyof typeof CHECKS;
export type CheckState = "ok" | "warning" | "failed" | "not_checked";

export interface CheckOutcome {
  readonly code: CheckCode;
  readonly state: CheckState;
  /** What was found, in one sentence; of `not_checked` the reason. */
  readonly found: string;
  /** The command or the setting that solves the problem. Absent: there is none. */
  readonly fix?: string;
  /** What this problem means for the fleet, if it is not what the check is about. */
  readonly meaning?: string;
}

export const meaningOfCheck = ({ code, meaning }: CheckOutcome): string => meaning ?? CHECKS[code];

export const sound = (code: CheckCode, found: string): CheckOutcome => ({ code, state: "ok", found });

export const warning = (code: CheckCode, found: string, fix: string, meaning?: string): CheckOutcome => ({
  ...{ code, state: "warning", found, fix },
  ...(meaning !== undefined && { meaning }),
});

export const failed = (code: CheckCode, found: string, fix: string, meaning?: string): CheckOutcome => ({
  ...{ code, state: "failed", found, fix },
  ...(meaning !== undefined && { meaning }),
});

/** What cannot be determined is never healthy. `fix`: the way to have it checked. */
export const notChecked = (code: CheckCode, found: string, fix?: string): CheckOutcome => ({
  ...{ code, state: "not_checked", found },
  ...(fix !== undefined && { fix }),
});

export const isProblem = ({ state }: CheckOutcome): boolean => state === "warning" || state === "failed";

/** The problems, or one sound finding if there are none. */
export const orSound = (
  problems: readonly CheckOutcome[],
  otherwise: () => CheckOutcome,
): readonly CheckOutcome[] => (problems.length > 0 ? problems : [otherwise()]);
