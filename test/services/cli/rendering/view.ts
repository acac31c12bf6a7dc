// How pages look in the tests: no colours, and a time that stands still.

import { createView, type View } from "../../../../services/cli/rendering/terminal/view.ts";

export const NOW = Date.parse("2026-01-04T15:35:00.000Z");
export const view: View = createView({ write: () => {} }, { color: true, env: {}, now: NOW });
