/** The style of the page of the API. It follows the colours that the reader's system prefers. */
export const PAGE_STYLE = `
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2128;--soft:#57606a;--line:#d8dee4;--panel:#f6f8fa;--link:#0757b8;--get:#0757b8;--post:#116329;--patch:#8a4600;--delete:#b42318}
@media(prefers-color-scheme:dark){:root{--bg:#0f1318;--fg:#e3e8ee;--soft:#98a3af;--line:#2c343d;--panel:#171d24;--link:#7ab8ff;--get:#7ab8ff;--post:#6fd38c;--patch:#f0b062;--delete:#ff8f86}}
*{box-sizing:border-box}html{scroll-behavior:smooth;scroll-padding-top:1rem}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;display:grid;grid-template-columns:18rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1.25rem 1rem;border-right:1px solid var(--line);background:var(--panel);font-size:13.5px}
nav .home{font-weight:700;font-size:16px;color:var(--fg)}nav a{display:flex;padding:.18rem .4rem;color:var(--fg);text-decoration:none;border-radius:4px}nav a:hover{background:var(--line)}
nav summary{cursor:pointer;margin-top:.9rem;color:var(--soft);font-weight:600}
main{padding:1.5rem 2.5rem 6rem;max-width:60rem}h1{font-size:1.9rem;margin:.2rem 0 1rem}h2{margin:3rem 0 .2rem;padding-top:1rem;border-top:1px solid var(--line)}
article{margin:1.6rem 0;padding:1rem 1.25rem;border:1px solid var(--line);border-radius:8px}article:target{border-color:var(--link)}
h3{margin:0;font-size:1.02rem;font-weight:600;overflow-wrap:anywhere}h3 code{background:none;padding:0;font-size:.98rem}h3 i{color:var(--soft)}h4{margin:1rem 0 .35rem;font-size:.85rem;color:var(--soft)}
a{color:var(--link)}b.get{color:var(--get)}b.post{color:var(--post)}b.patch{color:var(--patch)}b.delete{color:var(--delete)}
nav b{flex:none;width:4.8em;font-size:11px;line-height:1.9}
code,pre{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace;font-size:.88em}code{background:var(--panel);padding:.05em .3em;border-radius:4px;overflow-wrap:anywhere}
pre{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;overflow:auto}
table{border-collapse:collapse;width:100%}td{border-top:1px solid var(--line);padding:.35rem .6rem .35rem 0;vertical-align:top}td:nth-child(2){color:var(--soft);padding-right:1.2rem}td:first-child{width:15rem}
small,.type{color:var(--soft)}.type{font-size:.9em}
.members{list-style:none;margin:.2rem 0;padding-left:.9rem;border-left:2px solid var(--line)}.members li{padding:.12rem 0}
.answer{padding:.15rem 0}summary{cursor:pointer}.s2{color:var(--post)}.s3{color:var(--soft)}.s4{color:var(--patch)}.s5{color:var(--delete)}
@media(max-width:50rem){body{display:block}nav{position:static;height:auto;max-height:45vh;border-right:0;border-bottom:1px solid var(--line)}main{padding:1rem}}
`;
