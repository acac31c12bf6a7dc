/**
 * Leases in the store: what this watchdog heard, for the others, and what they heard, for this one. They outlive all watchdogs, so that
 * tasks are found whose agents died while nobody watched.
 */
import { isCredibleEnd } from "../../../shared/records/leader/lease.ts";
import type { AgentLease, LeaseKey, LeasePage } from "../../../shared/records/recovery/leases.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { Attention } from "./observed-clock.ts";
import type { Watch, Watches } from "./watches.ts";

/** How often it is looked whose lease has run low. */
const RENEW_EVERY_MS = 250;
const RENEW_PAGE = 400;
const READ_EVERY_MS = 5_000;
const READ_PAGE = 2_000;

export interface LeasesParts extends ServiceContext {
  readonly attention: Attention;
  readonly watches: Watches;
  readonly silenceOf: (tenant: string, agentType: string) => number;
}

/** Starts at once, with what is in the store. */
export function startLeases(parts: LeasesParts, repository: Pick<CheckpointRepository, "recovery">): Stop {
  const { clock, log } = parts;
  const tick = (name: string, everyMs: number, run: () => Promise<void>): Stop =>
    startTicker({ name, everyMs, jitter: 0.1, run, clock, log });
  const stops = [
    tick("lease reading", READ_EVERY_MS, () => readAll(parts, repository)),
    tick("lease renewal", RENEW_EVERY_MS, () => renew(parts, repository)),
  ];
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}

async function renew(
  { watches, clock }: LeasesParts,
  { recovery }: Pick<CheckpointRepository, "recovery">,
): Promise<void> {
  const nowMs = clock.now();
  const due = [...watches.all()].filter((watch) => isLow(watch, nowMs));
  for (let from = 0; from < due.length; from += RENEW_PAGE) {
    const page = due.slice(from, from + RENEW_PAGE).map((watch) => ({ watch, lapsesAt: endOf(watch) }));
    await recovery.renewLeases(page.map(({ watch, lapsesAt }) => ({ ...watch, lapsesAt })));
    for (const { watch, lapsesAt } of page) watch.leaseUntil = lapsesAt;
  }
}

const endOf = ({ lastSignAt, silenceMs }: Watch): number => lastSignAt + silenceMs;

/** And there was a sign of life since, so that it gets longer. */
function isLow(watch: Watch, nowMs: number): boolean {
  const lowMs = watch.silenceMs / 3;
  return watch.leaseUntil - nowMs < lowMs && endOf(watch) > watch.leaseUntil + lowMs / 4;
}

async function readAll(
  parts: LeasesParts,
  { recovery }: Pick<CheckpointRepository, "recovery">,
): Promise<void> {
  for (let last: LeaseKey | null = null; ; ) {
    const page: LeasePage = await recovery.leases(last, READ_PAGE);
    for (const lease of page.leases) learn(parts, lease);
    last = page.last;
    if (last === null) return;
  }
}

/** A lease says when its agent was heard, by whomever. */
function learn({ watches, attention, silenceOf, clock }: LeasesParts, lease: AgentLease): void {
  const { tenant, task, fence, agentId, agentType } = lease;
  const silenceMs = silenceOf(tenant, agentType);
  const nowMs = clock.now();
  const isAhead = !isCredibleEnd(lease.lapsesAt, { nowMs, leaseMs: silenceMs });
  const lastSignAt = isAhead ? nowMs : Math.min(nowMs, lease.lapsesAt - silenceMs);
  const heardAt = attention.now() - (nowMs - lastSignAt);
  const leaseUntil = isAhead ? 0 : lease.lapsesAt;
  const known = watches.get(lease);
  if (known === undefined) {
    const found = { heardAt, lastSignAt, leaseUntil, isOverdue: false, checkedAt: 0, notBefore: 0 };
    watches.add({ tenant, task, fence, agentId, agentType, silenceMs, ...found });
    return;
  }
  if (isAhead) return;
  known.leaseUntil = Math.max(known.leaseUntil, leaseUntil);
  if (lastSignAt <= known.lastSignAt) return;
  known.lastSignAt = lastSignAt;
  known.heardAt = Math.max(known.heardAt, heardAt);
}
