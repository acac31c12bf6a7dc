/** The writer's own settings. */
import { type ConfigOf, list } from "../../shared/runtime/config.ts";

export const writerFields = {
  agentTypes: list("FLEET_AGENT_TYPES", {
    default: [],
    description: "Agent types beside architecture, implementation, qa and documentation",
  }),
} as const;

export type WriterConfig = ConfigOf<typeof writerFields>;
