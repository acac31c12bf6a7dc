/** The query for events in the order in which the stream has them, from a position on. */
import { z } from "zod";
import { EVENT_TYPES, eventSchema } from "./events.ts";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";

export const eventsQuerySchema = z.looseObject({
  task_id: tokenSchema.optional(),
  type: z.enum(EVENT_TYPES, { error: "a type of events" }).optional(),
  /** The cursor of the last event that the caller has. Absent: see `from`. */
  after: z.string().max(1_024).optional(),
  /** `now`: only later events. `oldest`: all that the stream has, which keeps them for seven days. */
  from: z.enum(["now", "oldest"], { error: "now or oldest" }).default("now"),
  limit: pageLimit(LIMITS.events_limit_max, LIMITS.events_limit_default),
});

export const eventPageSchema = z.looseObject({
  events: z.array(z.looseObject({ cursor: z.string(), event: eventSchema })),
  /** For the next page, also after an empty one. */
  cursor: z.string(),
});
export type EventsPage = z.output<typeof eventPageSchema>;
