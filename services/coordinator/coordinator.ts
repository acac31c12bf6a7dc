/**
 * The coordinator: moves a task from one agent to the next. It verifies the checkpoint that is handed over,
 * offers the task to agents of the next type, offers it again when no agent accepts in time, and finally
 * escalates it to operators. Its whole state is in the store, so any number of coordinators run without a
 * leader, and one continues the handoffs that another left behind.
 */
import type { Stop } from "../../shared/runtime/process/service.ts";
import type { EventContext } from "../../shared/service-host/event-consumer.ts";
import { knownAgentTypes } from "../../shared/service-host/policy-file.ts";
import { openRepository, type RepositoryContext } from "../../shared/service-host/repository.ts";
import type { CoordinatorConfig } from "./config.ts";
import { startHandoffController } from "./handoff-controller.ts";
import { startHandoffEvents } from "./handoff-events.ts";
import { startHandoffGauges } from "./handoff-gauges.ts";
import { createOfferBuilder } from "./offer-builder.ts";
import { startPolicyRecord } from "./policy-record.ts";
import { startPromptPreparation } from "./prompt-preparation.ts";
import type { PromptRenderer } from "./prompt-renderer.ts";

export interface CoordinatorContext extends EventContext, RepositoryContext {
  readonly instance: string;
  readonly config: CoordinatorConfig;
  /** Closed by the host after the stop. */
  readonly prompts: PromptRenderer;
}

export async function start(context: CoordinatorContext): Promise<Stop> {
  const { log, config, prompts, metrics } = context;
  const repository = openRepository(context, { finder: "coordinator" });
  const rules = { agentTypes: knownAgentTypes(config.agentTypes), policies: config.policies };
  const controller = startHandoffController(
    context,
    repository,
    createOfferBuilder(repository, rules, { prompts, metrics }),
  );
  const stopEvents = startHandoffEvents(context, repository, controller);
  const stopGauges = startHandoffGauges(context);
  const stopPreparation = startPromptPreparation(context);
  const stopRecord = startPolicyRecord(context, repository, config.policies);
  log.info({ instance: context.instance }, "coordinator started");
  return async () => {
    // The events stop first, so that the runs that they woke are finished.
    await stopEvents();
    await Promise.all([controller.stop(), stopGauges(), stopPreparation(), stopRecord()]);
    log.info("coordinator stopped");
  };
}
