/**
 * Removes the content of tasks whose shredding two persons have decided: within seconds of the approval, one instance at a time, under a
 * lease that each of its transactions checks.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import { offerMarks } from "../../../shared/bus/publish/offer-marks.ts";
import { type AlertParts, publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { asFleetError } from "../../../shared/records/kv/store-errors.ts";
import { LeaseLost, requireLease } from "../../../shared/records/leader/lease.ts";
import { stepLateMessages } from "../../../shared/records/retention/shred/late-messages.ts";
import {
  type KeptShred,
  type ShredPlace,
  type ShredStep,
  type ShredSweep,
  stepShredding,
} from "../../../shared/records/retention/shred/shred-sweep.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { Bytes } from "../../../shared/store/store.ts";
import type { WriterConfig } from "../config.ts";
import type { WriterContext } from "../context.ts";

const EVERY_MS = 5_000;

export interface ShreddingContext extends ServiceContext, Pick<WriterContext, "store" | "format" | "leases"> {
  readonly backgroundBus: AlertParts["bus"] & Pick<Bus, "stream">;
  readonly config: Pick<WriterConfig, "policies">;
}

export function startShredding(context: ShreddingContext): Stop {
  const { store, format, leases, clock, log, config } = context;
  const leader = leases.of("shredding");
  const throttle = createBackgroundThrottle(clock);
  const known = new Set<string>();
  const sweepWhile = (mayContinue: () => Promise<boolean>): ShredSweep => ({
    ...{ store, incarnation: format.incarnation, service: "writer", policies: config.policies },
    now: () => clock.now(),
    // Held before each transaction: a step has many, and may take longer than the lease lasts.
    async guard(tx: Parameters<typeof requireLease>[0]): Promise<void> {
      const lease = await leader.hold();
      if (lease === null) throw new LeaseLost("shredding");
      await requireLease(tx, lease);
    },
    // It may be one of many messages. A task whose messages are not all erased stays approved, and the next round continues.
    eraseMessages: (place) => eraseMessages(context, place, mayContinue),
  });
  const stop = startTicker({
    name: "shredding",
    everyMs: EVERY_MS,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      const round: Round = { kept: [], failed: [] };
      const mayContinue = async () => !signal.aborted && (await leader.hold()) !== null;
      const sweep = sweepWhile(mayContinue);
      const shred = (from: Bytes | null) => throttle.step(() => stepShredding(sweep, from), signal);
      const eraseLate = (from: Bytes | null) => throttle.step(() => stepLateMessages(sweep, from), signal);
      const isWhole =
        (await eachPage(mayContinue, shred, (page) => {
          report(context, page);
          round.kept.push(...page.kept);
          round.failed.push(...page.failed);
        })) &&
        (await eachPage(mayContinue, eraseLate, ({ failed }) => {
          for (const one of failed)
            log.error(
              one,
              "late messages of a shredded task cannot be erased now; the next round tries it again",
            );
          round.failed.push(...failed);
        }));
      if (isWhole) return reportRound(context, round, known);
      // Another instance counts them.
      if (!signal.aborted) setGauges(context, { kept: [], failed: [] });
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

/** False: the sweep stops, or another instance continues. */
async function eachPage<Page extends { readonly next: Bytes | null }>(
  mayContinue: () => Promise<boolean>,
  take: (from: Bytes | null) => Promise<Page>,
  handle: (page: Page) => void,
): Promise<boolean> {
  for (let from: Bytes | null = null; await mayContinue(); ) {
    const page = await take(from);
    handle(page);
    if (page.next === null) return true;
    from = page.next;
  }
  return false;
}

/** Offers have a prompt, and reports of exits and alerts have details. Events stay: the scrub compares the trail with them. */
async function eraseMessages(
  { backgroundBus: bus, log, format }: Pick<ShreddingContext, "backgroundBus" | "log" | "format">,
  { tenant, task }: ShredPlace,
  mayContinue: () => Promise<boolean>,
): Promise<void> {
  const mark = offerMarks(format.message_key)(tenant, task);
  const filters = [
    [STREAMS.offers, SUBJECTS.taskOffers(tenant, task, mark)],
    // Of an earlier version.
    [STREAMS.offers, SUBJECTS.taskOffers(tenant, task)],
    [STREAMS.exits, SUBJECTS.taskExits(tenant, task)],
    [STREAMS.alerts, SUBJECTS.alertsOf({ tenant, task })],
  ] as const;
  for (const [stream, filter] of filters) {
    const erased = await bus.stream(stream).erase(filter, mayContinue);
    if (erased === "some") throw new LeaseLost("shredding");
    if (erased === "denied")
      log.warn(
        { tenant, task, stream },
        "a stream of an earlier version keeps the messages of a shredded task until their time is over",
      );
  }
}

interface Round {
  readonly kept: KeptShred[];
  readonly failed: ShredStep["failed"][number][];
}

function setGauges({ metrics }: Pick<ServiceContext, "metrics">, { kept, failed }: Round): void {
  metrics.shreddingsKept.set(kept.length);
  metrics.shreddingsFailed.set(failed.length);
}

/** Two persons have decided what does not happen, so operators learn of it: by an alert for each task and reason, and by a gauge as long as it lasts. */
async function reportRound(context: ShreddingContext, round: Round, known: Set<string>): Promise<void> {
  setGauges(context, round);
  // What the store had no time for succeeds in another round.
  const damaged = round.failed.filter(({ error }) => asFleetError(error).code === "CORRUPT");
  const blocked = [...round.kept, ...damaged.map((one) => ({ ...one, reason: "damaged" as const }))];
  const names = new Map(blocked.map((one) => [`${one.tenant}/${one.task}/${one.reason}`, one]));
  for (const name of known) if (!names.has(name)) known.delete(name);
  for (const [name, { tenant, task, reason }] of names) {
    if (known.has(name)) continue;
    const severity = reason === "damaged" ? "critical" : "warning";
    const data = { taskId: task, reason };
    const of = { tenant, task, occasion: `shred-${reason}`, nowMs: context.clock.now(), data };
    const { backgroundBus: bus, log, metrics } = context;
    await publishAlert({ bus, log, metrics }, alertOf("SHREDDING_BLOCKED", severity, of));
    known.add(name);
  }
}

function report({ log, metrics }: ShreddingContext, { removed, ended, failed }: ShredStep): void {
  metrics.shreddedCheckpointsTotal.inc(removed);
  metrics.shreddedTasksTotal.inc(ended.length);
  for (const one of ended) log.info(one, "a task was shredded");
  for (const one of failed) log.error(one, "a task cannot be shredded now; the next round tries it again");
}
