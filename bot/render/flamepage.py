"""A flame graph as one self-contained page: zoom by click, search, no connection to anywhere.

Every name comes from a foreign process, so all text is escaped and the page allows no script but its own.
"""

import base64
import hashlib
from html import escape

from bot.render.flame import Box, Colour, Flame, colour_of, legend, short
from bot.render.words import visible

_ROW = 20

_STYLE = """
:root{color-scheme:light dark}body{font:13px system-ui,sans-serif;margin:16px}h1{font-size:18px;margin:0 0 4px}
h1,p{overflow-wrap:anywhere}p{margin:0 0 10px;opacity:.75}#bar,#legend{display:flex;flex-wrap:wrap;gap:8px}
#bar,#legend{margin:0 0 10px;padding:0;list-style:none}#legend{gap:4px 16px}
#legend span{display:inline-block;width:12px;height:12px;margin-right:6px;border-radius:1px}
#graph{position:relative;width:100%}
#graph button{position:absolute;height:19px;border:0;padding:0;text-indent:4px;text-align:left;overflow:hidden;
white-space:nowrap;font:12px system-ui,sans-serif;color:#181818;cursor:pointer;border-radius:1px}
#graph button[data-r="0"]{box-shadow:inset 0 0 0 1px #767676}
#graph button:focus{outline:2px solid #0b57d0;z-index:1}#graph .dim{opacity:.35}#graph .off{display:none}
#said{min-height:1.4em}
"""

_SCRIPT = """
const graph=document.getElementById('graph'),said=document.getElementById('said');
const search=document.getElementById('search');
const frames=[...graph.children].map(e=>({e,l:+e.dataset.l,w:+e.dataset.w,r:+e.dataset.r}));
let root=frames[0];
function place(){for(const f of frames){const out=f.l+f.w<=root.l+1e-6||f.l>=root.l+root.w-1e-6;
const above=f.r<root.r&&!out;f.e.classList.toggle('off',out);if(out)continue;
f.e.style.left=(above?0:(f.l-root.l)/root.w*100)+'%';
f.e.style.width='calc('+(above?100:f.w/root.w*100)+'% - 1px)';f.e.classList.toggle('dim',above);}}
function find(){const t=search.value.toLowerCase();let sum=0,edge=-1;
for(const f of frames){const hit=t&&f.e.title.toLowerCase().includes(t);
f.e.style.filter=hit?'saturate(2.5) brightness(.8)':'';}
if(t){const hits=frames.filter(f=>f.e.title.toLowerCase().includes(t)).sort((a,b)=>a.l-b.l||a.r-b.r);
for(const f of hits)if(f.l>=edge-1e-9){sum+=f.w;edge=f.l+f.w;}said.textContent=(sum*100).toFixed(1)+'% matched';}
else said.textContent='';}
graph.addEventListener('click',e=>{const f=frames.find(f=>f.e===e.target);
if(f){root=f;place();said.textContent=f.e.title;}});
document.getElementById('reset').addEventListener('click',()=>{root=frames[0];place();});
search.addEventListener('input',find);
document.addEventListener('keydown',e=>{if(e.key==='Escape'){root=frames[0];place();}});
for(const f of frames)f.e.style.top=f.r*ROW+'px';
for(const e of document.querySelectorAll('[data-c]'))e.style.background=e.dataset.c;
graph.style.height=(Math.max(...frames.map(f=>f.r))+1)*ROW+'px';place();
""".replace("ROW", str(_ROW))


def flame_page(flame: Flame, title: str, subtitle: str) -> str:
    """The page. `title` and `subtitle` are foreign text, as all names are."""
    policy = f"default-src 'none'; script-src '{_hash(_SCRIPT)}'; style-src '{_hash(_STYLE)}'"
    head, about = escape(visible(title)), escape(visible(subtitle))
    left = (
        f". {flame.hidden} narrow and {flame.deeper} deep frames are left out." if flame.hidden or flame.deeper else ""
    )
    frames = "\n".join(map(_frame, flame.boxes)) or "<p>no samples</p>"
    colours = "".join(f'<li><span data-c="{_css(colour)}"></span>{group}</li>' for group, colour in legend(flame.boxes))
    script = f"<script>{_SCRIPT}</script>" if flame.boxes else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<title>{head}</title><style>{_STYLE}</style></head>
<body><main><h1>{head}</h1><p>{about}{left}</p>
<div id="bar"><button id="reset" type="button">Whole graph</button>
<input id="search" type="search" aria-label="Search functions" placeholder="Search functions">
<span id="said" role="status"></span></div>
<ul id="legend" aria-label="Colours">{colours}</ul>
<div id="graph">
{frames}
</div></main>{script}</body></html>
"""


def _frame(box: Box) -> str:
    name = escape(visible(box.name))
    place = f'data-l="{box.left:.7f}" data-w="{box.width:.7f}" data-r="{box.row}" data-c="{_css(colour_of(box))}"'
    return f'<button type="button" {place} title="{name} {box.width:.2%}">{escape(visible(short(box.name)))}</button>'


def _css(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
