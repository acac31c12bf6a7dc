// The view of the rendering tests: no colours, and a fixed time.

import { createView, type View } from "../../../../services/cli/rendering/terminal/view.ts";

export const NOW = Date.parse("2026-01-04T15:35:00.000Z");
export const view: View = createView({ write: () => {} }, { color: true, env: {}, now: NOW });
