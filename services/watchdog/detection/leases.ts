/**
 * The leases in the store: they tell the other watchdogs when this one heard an owner, and this one when they
 * did. They survive all watchdogs, so the tasks of agents that failed while no watchdog ran are found.
 */
import { isCredibleEnd } from "../../../shared/records/leader/lease.ts";
import type { AgentLease, LeaseKey, LeasePage } from "../../../shared/records/recovery/leases.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import type { MonitoredOwner, MonitoredOwners } from "./monitored-owners.ts";
import type { ObservedClock } from "./observed-clock.ts";

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
  const { owners, clock, log } = parts;
  const stopReading = startTicker({
    name: "lease reader",
    everyMs: READ_EVERY_MS,
    jitter: 0.1,
    run: () => readAll(parts, repository),
    clock,
    log,
  });
  const stopping = new AbortController();
  const renewing = runWorker({
    name: "lease renewal",
    take: async () => pagesToRenew(parts),
    handle: (page) => renew(page, repository),
    idle: owners.pause(),
    // After an outage of the store, leases of short silence timeouts are about to end.
    backoff: { baseMs: 100, maxMs: 1_000 },
    signal: stopping.signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await Promise.all([stopReading(), renewing]);
  };
}

function pagesToRenew({ owners, clock }: LeasesParts): MonitoredOwner[][] {
  const nowMs = clock.now();
  const due = [...owners.all()].filter((owner) => endsSoon(owner, nowMs));
  const pages: MonitoredOwner[][] = [];
  for (let from = 0; from < due.length; from += RENEW_PAGE) pages.push(due.slice(from, from + RENEW_PAGE));
  return pages;
}

async function renew(
  page: readonly MonitoredOwner[],
  { recoveryActions }: Pick<CheckpointRepository, "recoveryActions">,
): Promise<void> {
  const renewed = page.map((owner) => ({ owner, lapsesAt: endOf(owner) }));
  await recoveryActions.renewLeases(renewed.map(({ owner, lapsesAt }) => ({ ...owner, lapsesAt })));
  for (const { owner, lapsesAt } of renewed) owner.leaseUntil = lapsesAt;
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
