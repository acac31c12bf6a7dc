/**
 * The coordinator: moves a task from one agent to the next. It verifies what is handed off, offers it to agents of the next type, offers
 * it again when nobody takes it in time, and calls a person when nobody does. All that it knows is in the store, so any number of
 * coordinators run at once without a leader, and a handoff that one leaves behind is carried on by the next that looks.
 */
import type { Bus } from "../../shared/bus/bus.ts";
import { tokenizer } from "../../shared/prompts/tokens.ts";
import type { Format } from "../../shared/records/kv/format.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { knownAgentTypes } from "../../shared/service-host/policy-file.ts";
import { openRepository } from "../../shared/service-host/repository.ts";
import type { Store } from "../../shared/store/store.ts";
import type { CoordinatorConfig } from "./config.ts";
import { createAdvancing } from "./handoff-controller.ts";
import { startNews } from "./handoff-events.ts";
import { startHandoffGauges } from "./handoff-gauges.ts";
import { sweepHandoffs } from "./handoff-sweep.ts";
import { createExamination } from "./offer-builder.ts";

export interface CoordinatorContext extends ServiceContext {
  readonly store: Store;
  readonly backgroundBus: Bus;
  readonly format: Format;
  readonly instance: string;
  readonly config: CoordinatorConfig;
}

export async function start(context: CoordinatorContext): Promise<Stop> {
  const { log, config } = context;
  const repository = openRepository(context, { finder: "coordinator" });
  // Its tables take a while to load, which nobody's handoff should wait for.
  tokenizer();
  const rules = { agentTypes: knownAgentTypes(config.agentTypes), policies: config.policies };
  const advancing = createAdvancing(context, repository, createExamination(repository, rules));
  const stopNews = startNews(context, repository, advancing);
  const stopSweep = sweepHandoffs(context, repository, advancing);
  const stopGauges = startHandoffGauges(context);
  log.info({ instance: context.instance }, "coordinator started");
  return async () => {
    await Promise.all([stopNews(), stopSweep(), stopGauges()]);
    log.info("coordinator stopped");
  };
}
