// The agent type that a failure names is used only if the fleet has agents of it.

import { afterEach, beforeEach, expect, test } from "vitest";
import { createDamageReporter } from "../../../../services/watchdog/detection/damaged-head.ts";
import { createFailureRecorder } from "../../../../services/watchdog/detection/record-failure.ts";
import { createAdmission } from "../../../../services/watchdog/recovery/admission.ts";
import { takeRecoverySteps } from "../../../../services/watchdog/recovery/recovery-controller.ts";
import { FAILURE_SIGNALS } from "../../../../shared/protocol/recovery-states.ts";
import type { RecoveryPlace } from "../../../../shared/records/recovery/due.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { knownAgentTypes } from "../../../../shared/service-host/policy-file.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { send } from "../../../harness/records/records.ts";
import { sightingOf } from "../../../harness/records/recoveries.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

let place: TestTasks;
beforeEach(async () => {
  place = await TestTasks.open("memory", {
    defaults: { recovery: { actions: { tool_error: ["other_agent_type"] } } },
    tenants: {
      default: {
        defaults: { recovery: { other_agent_type: { implementation: "qa", qa: "documentation" } } },
        agent_types: { implementation: { recovery: { attempts: 7 } } },
      },
    },
  });
});
afterEach(() => place.close());

function failureRecorder() {
  const { repository } = place;
  const clock = manualClock(place.now);
  const context = { clock, log: testLog, metrics: createMetrics({ ofProcess: false }) };
  const admission = createAdmission(repository, clock, 256);
  const controller = {
    wake: (due: RecoveryPlace) => takeRecoverySteps(clock, repository, admission, due),
  };
  const reportDamage = createDamageReporter(context, repository);
  return createFailureRecorder(context, repository, {
    controller,
    reportDamage,
    agentTypes: knownAgentTypes([]),
  });
}

/** The checkpoints of the task name the type `implementation`. */
async function fails(agent_type: string | null, changes: Parameters<typeof sightingOf>[1] = {}) {
  const task = await place.owned();
  place.now += 60_000;
  const sighting = sightingOf(await place.head(task), { agent_type, ...changes });
  expect(await failureRecorder()({ tenant: "default", task }, sighting)).toMatchObject({ applied: true });
  const { recovery, handoff_id } = await place.head(task);
  const handoff = handoff_id === null ? null : await place.handoff(handoff_id);
  return { type: recovery?.failure?.agent_type, most: recovery?.attempts_max, to: handoff?.to_agent_type };
}

test("an unknown type counts as that of the task's checkpoints, with every signal, and for the policy too", async () => {
  for (const signal of FAILURE_SIGNALS.filter((one) => !one.startsWith("handoff"))) {
    for (const named of ["astronomy", "__proto__", null]) {
      const { type, most, to } = await fails(named, { signal });
      expect({ type, most, to }).toEqual({ type: "implementation", most: 9, to: "implementation" });
    }
  }
  expect(await fails("astronomy", { class: "tool_error" })).toMatchObject({ to: "qa" });
});

test("a known type is used as it is", async () => {
  expect(await fails("qa")).toEqual({ type: "qa", most: 5, to: "qa" });
  expect(await fails("qa", { class: "tool_error" })).toMatchObject({ to: "documentation" });
});

test("a failure of a task without a checkpoint has no type", async () => {
  const task = place.fresh();
  await send(place.repository, "take", {}, { task });
  const sighting = sightingOf(await place.head(task), { agent_type: "astronomy" });
  await failureRecorder()({ tenant: "default", task }, sighting);
  expect(await place.recovery(task)).toMatchObject({
    failure: { agent_type: null },
    blocked: { reason: "no_checkpoint" },
  });
});
