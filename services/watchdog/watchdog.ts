/**
 * The watchdog: detects that agents have failed, records their failures, and recovers their tasks from the
 * last sound checkpoint. It also scrubs the store, keeps the audit log and posts alerts to webhooks. Its state is in the store, so
 * any number of watchdogs run without a leader.
 */
import type { Bus } from "../../shared/bus/bus.ts";
import { type Policies, policyOf } from "../../shared/protocol/policy.ts";
import type { LeaderLeases } from "../../shared/records/leader/leader-lease.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { type AgentRules, knownAgentTypes } from "../../shared/service-host/policy-file.ts";
import { openRepository, type RepositoryContext } from "../../shared/service-host/repository.ts";
import type { EncryptionKeys } from "../../shared/service-host/store/encryption.ts";
import { startAnchorer } from "./anchors/anchorer.ts";
import { startAuditLogger } from "./audit-log/audit-logger.ts";
import type { WatchdogConfig } from "./config.ts";
import { createDamageReporter } from "./detection/damaged-head.ts";
import { startExitReports } from "./detection/exit-reports.ts";
import { startFailedHandoffs } from "./detection/failed-handoffs.ts";
import { startFailureDetector } from "./detection/failure-detector.ts";
import { HeartbeatMonitor } from "./detection/heartbeat-monitor.ts";
import { startLeases } from "./detection/leases.ts";
import { MonitoredOwners } from "./detection/monitored-owners.ts";
import { startObservationAlert } from "./detection/observation-alert.ts";
import { startObservedClock } from "./detection/observed-clock.ts";
import { createFailureRecorder } from "./detection/record-failure.ts";
import { startSilentMissions } from "./detection/silent-missions.ts";
import { startEncryptor } from "./encryption/encryptor.ts";
import { createAdmission } from "./recovery/admission.ts";
import { startRecoveryController } from "./recovery/recovery-controller.ts";
import { startRecoveryEvents } from "./recovery/recovery-events.ts";
import { startRecoveryGauges } from "./recovery/recovery-gauges.ts";
import { startScrubber } from "./scrub/scrubber.ts";
import { startWebhooks } from "./webhooks/webhooks.ts";

/** The agent types and policies of the fleet, and the settings of the watchdog. */
export interface WatchdogRules extends AgentRules {
  readonly watchdog: WatchdogConfig;
}

export interface WatchdogContext extends RepositoryContext {
  /** The connection over which heartbeats arrive. */
  readonly bus: Bus;
  readonly backgroundBus: Bus;
  readonly instance: string;
  readonly leases: LeaderLeases;
  readonly encryption?: EncryptionKeys | null;
  readonly config: WatchdogRules;
}

/** Silence timeouts that are remembered. Agents name their own types, so there may be any number. */
const REMEMBERED_MAX = 1_000;

export async function start(context: WatchdogContext): Promise<Stop> {
  const { log, clock, config } = context;
  const { policies } = config;
  const repository = openRepository(context, { finder: "watchdog", policies });
  const admission = createAdmission(repository, clock, config.watchdog.recoveriesMax);
  const controller = startRecoveryController(context, repository, admission);
  const recordFailure = createFailureRecorder(context, repository, {
    controller,
    reportDamage: createDamageReporter(context, repository),
    agentTypes: knownAgentTypes(config.agentTypes),
  });
  const owners = new MonitoredOwners();
  const observedClock = startObservedClock({ ...context, owners });
  const parts = { ...context, observedClock, owners, silenceOf: silenceTimeouts(policies) };
  const monitor = new HeartbeatMonitor(parts, repository);
  const stopMonitor = await monitor.start();
  const stops = [
    startLeases(parts, repository),
    startFailureDetector({ ...parts, recordFailure }, repository),
    startExitReports(context, repository, recordFailure),
    startFailedHandoffs(context, repository, recordFailure),
    startRecoveryEvents(context, repository, controller),
    startSilentMissions(context, config.watchdog.missionSilence),
    startObservationAlert(parts),
    startRecoveryGauges(context, repository, owners),
    startWebhooks(context, config.watchdog.webhooks),
    startAuditLogger(context),
    startAnchorer(context, config.watchdog.anchors),
    startEncryptor(context),
    startScrubber(context, {
      rateBytes: config.watchdog.scrubRate,
      everyMs: config.watchdog.scrubEvery,
    }),
  ];
  log.info({ instance: context.instance }, "watchdog started");
  return async () => {
    await stopMonitor();
    // The sources of failures and requests stop first, so that the recoveries that they woke are finished.
    await Promise.all(stops.map((stop) => stop()));
    await controller.stop();
    await observedClock.stop();
    log.info("watchdog stopped");
  };
}

/**
 * The silence timeout by tenant and agent type, in milliseconds. Remembered, because it is asked for
 * thousands of agents.
 */
function silenceTimeouts(policies: Policies): (tenant: string, agentType: string) => number {
  const known = new Map<string, number>();
  return (tenant, agentType) => {
    const name = `${tenant}/${agentType}`;
    const silenceMs = known.get(name) ?? policyOf(policies, tenant, agentType).recovery.silence_ms;
    if (known.size >= REMEMBERED_MAX) known.clear();
    known.set(name, silenceMs);
    return silenceMs;
  };
}
