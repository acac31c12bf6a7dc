/**
 * The watchdog: sees what nobody says by itself. It hears whether agents live, has the failures of those who do not noted, and carries their
 * tasks on from the last sound checkpoint. All that matters of it is in the store, so any number of watchdogs run at once without a leader.
 */
import type { Bus } from "../../shared/bus/bus.ts";
import { type Policies, policyOf } from "../../shared/protocol/policy.ts";
import type { Format } from "../../shared/records/kv/format.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { type AgentRules, knownAgentTypes } from "../../shared/service-host/policy-file.ts";
import { openRepository } from "../../shared/service-host/repository.ts";
import type { Store } from "../../shared/store/store.ts";
import type { WatchdogConfig } from "./config.ts";
import { createMeetingDamage } from "./detection/damaged-head.ts";
import { startReports } from "./detection/exit-reports.ts";
import { startLapses } from "./detection/failure-detector.ts";
import { startHearing } from "./detection/heartbeat-monitor.ts";
import { startLeases } from "./detection/leases.ts";
import { watchBlindness } from "./detection/observation-alert.ts";
import { startAttention } from "./detection/observed-clock.ts";
import { createNoting } from "./detection/record-failure.ts";
import { Watches } from "./detection/watches.ts";
import { createAdmission } from "./recovery/admission.ts";
import { startRecoveryController } from "./recovery/recovery-controller.ts";
import { startRecoveryEvents } from "./recovery/recovery-events.ts";
import { startRecoveryGauges } from "./recovery/recovery-gauges.ts";
import { startScrubbing } from "./scrub/scrubber.ts";
import { startWebhooks } from "./webhooks/webhooks.ts";

/** What a fleet agrees on about its agents, and the watchdog's own settings. */
export interface WatchdogRules extends AgentRules {
  readonly watchdog: WatchdogConfig;
}

export interface WatchdogContext extends ServiceContext {
  readonly store: Store;
  /** Over this one agents are heard. */
  readonly bus: Bus;
  readonly backgroundBus: Bus;
  readonly format: Format;
  readonly instance: string;
  readonly config: WatchdogRules;
}

/** Agent types of tenants; agents name themselves, so there may be any number. */
const REMEMBERED_MAX = 1_000;

export async function start(context: WatchdogContext): Promise<Stop> {
  const { log, clock, config } = context;
  const { policies } = config;
  const repository = openRepository(context, { finder: "watchdog", policies });
  const admission = createAdmission(repository, clock, config.watchdog.recoveriesMax);
  const controller = startRecoveryController(context, repository, admission);
  const meetDamage = createMeetingDamage(context, repository);
  const agentTypes = knownAgentTypes(config.agentTypes);
  const note = createNoting(context, repository, { controller, meetDamage, agentTypes });
  const silenceOf = silences(policies);
  const attention = startAttention(context);
  const watches = new Watches();
  const parts = { ...context, attention, watches, note, silenceOf };
  const stopHearing = await startHearing(parts, repository);
  const stops = [
    startLeases(parts, repository),
    startLapses(parts, repository),
    startReports(context, repository, note),
    startRecoveryEvents(context, repository, controller),
    watchBlindness({ ...context, attention }),
    startRecoveryGauges(context, repository, watches),
    startWebhooks(context, config.watchdog.webhooks),
    startScrubbing(context, {
      rateBytes: config.watchdog.scrubRate,
      everyMs: config.watchdog.scrubEvery,
    }),
  ];
  log.info({ instance: context.instance }, "watchdog started");
  return async () => {
    await stopHearing();
    // First the sources of failures and requests, so that their recoveries are finished.
    await Promise.all(stops.map((stop) => stop()));
    await controller.stop();
    await attention.stop();
    log.info("watchdog stopped");
  };
}

/** By tenant and agent type, in milliseconds. Of thousands of agents it is asked again and again. */
function silences(policies: Policies): (tenant: string, agentType: string) => number {
  const known = new Map<string, number>();
  return (tenant, agentType) => {
    const name = `${tenant}/${agentType}`;
    const silenceMs = known.get(name) ?? policyOf(policies, tenant, agentType).recovery.silence_ms;
    if (known.size >= REMEMBERED_MAX) known.clear();
    known.set(name, silenceMs);
    return silenceMs;
  };
}
