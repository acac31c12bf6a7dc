/**
 * The leases in the store: they tell the other watchdogs when this one heard an owner, and this one when they
 * did. They survive all watchdogs, so the tasks of agents that failed while no watchdog ran are found.
 */
import { isCredibleEnd } from "../../../shared/records/leader/lease.ts";
import type { AgentLease, LeaseKey, LeasePage } from "../../../shared/records/recovery/leases.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { MonitoredOwner, MonitoredOwners } from "./monitored-owners.ts";
import type { ObservedClock } from "./observed-clock.ts";

/** The pause between two searches for leases that end soon. */
const RENEW_EVERY_MS = 250;
const RENEW_PAGE = 400;
const READ_EVERY_MS = 5_000;
const READ_PAGE = 2_000;

export interface LeasesParts extends ServiceContext {
  readonly observedClock: ObservedClock;
  readonly owners: MonitoredOwners;
  /** The silence timeout of an agent type, in milliseconds. */
  readonly silenceOf: (tenant: string, agentType: string) => number;
}

/** Reads all leases of the store at once. */
export function startLeases(
  parts: LeasesParts,
  repository: Pick<CheckpointRepository, "recoveryActions">,
): Stop {
  const { clock, log } = parts;
  const tick = (name: string, everyMs: number, run: () => Promise<void>): Stop =>
    startTicker({ name, everyMs, jitter: 0.1, run, clock, log });
  const stops = [
    tick("lease reader", READ_EVERY_MS, () => readAll(parts, repository)),
    tick("lease renewal", RENEW_EVERY_MS, () => renew(parts, repository)),
  ];
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}

async function renew(
  { owners, clock }: LeasesParts,
  { recoveryActions }: Pick<CheckpointRepository, "recoveryActions">,
): Promise<void> {
  const nowMs = clock.now();
  const due = [...owners.all()].filter((owner) => endsSoon(owner, nowMs));
  for (let from = 0; from < due.length; from += RENEW_PAGE) {
    const page = due.slice(from, from + RENEW_PAGE).map((owner) => ({ owner, lapsesAt: endOf(owner) }));
    await recoveryActions.renewLeases(page.map(({ owner, lapsesAt }) => ({ ...owner, lapsesAt })));
    for (const { owner, lapsesAt } of page) owner.leaseUntil = lapsesAt;
  }
}

const endOf = ({ lastSignAt, silenceMs }: MonitoredOwner): number => lastSignAt + silenceMs;

/** Whether less than a third of the lease is left, and a later sign of life extends it. */
function endsSoon(owner: MonitoredOwner, nowMs: number): boolean {
  const soonMs = owner.silenceMs / 3;
  return owner.leaseUntil - nowMs < soonMs && endOf(owner) > owner.leaseUntil + soonMs / 4;
}

async function readAll(
  parts: LeasesParts,
  { recoveryActions }: Pick<CheckpointRepository, "recoveryActions">,
): Promise<void> {
  for (let last: LeaseKey | null = null; ; ) {
    const page: LeasePage = await recoveryActions.leases(last, READ_PAGE);
    for (const lease of page.leases) apply(parts, lease);
    last = page.last;
    if (last === null) return;
  }
}

/** A lease tells when any watchdog heard the owner last. */
function apply({ owners, observedClock, silenceOf, clock }: LeasesParts, lease: AgentLease): void {
  const { tenant, task, fence, agentId, agentType } = lease;
  const silenceMs = silenceOf(tenant, agentType);
  const nowMs = clock.now();
  const isAhead = !isCredibleEnd(lease.lapsesAt, { nowMs, leaseMs: silenceMs });
  const lastSignAt = isAhead ? nowMs : Math.min(nowMs, lease.lapsesAt - silenceMs);
  const heardAt = observedClock.now() - (nowMs - lastSignAt);
  const leaseUntil = isAhead ? 0 : lease.lapsesAt;
  const known = owners.get(lease);
  if (known === undefined) {
    const found = { heardAt, lastSignAt, leaseUntil, isOverdue: false, checkedAt: 0, notBefore: 0 };
    owners.add({ tenant, task, fence, agentId, agentType, silenceMs, ...found });
    return;
  }
  if (isAhead) return;
  known.leaseUntil = Math.max(known.leaseUntil, leaseUntil);
  if (lastSignAt <= known.lastSignAt) return;
  known.lastSignAt = lastSignAt;
  known.heardAt = Math.max(known.heardAt, heardAt);
}
