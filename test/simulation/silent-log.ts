/** The log of all simulated processes. */
import { createLogger, type Logger } from "../../shared/runtime/observability/log.ts";

export const SILENT_LOG: Logger = createLogger({ service: "simulation", level: "silent" });
