" localspec in Vim 9 and Neovim: put this file into ~/.vim/plugin/ or ~/.config/nvim/plugin/.
"
"   <C-X><C-G>              (insert mode)  fill in what is missing at the cursor
"   :Localspec Add docstrings              change the buffer, or the selected lines, as told; `u` undoes it
"
" With `localspec serve` running, in a terminal or by a service, nothing is loaded anew.

if exists('g:loaded_localspec')
  finish
endif
let g:loaded_localspec = 1

" The command, with options that always hold: let g:localspec_command = 'localspec --version' tries it.
let g:localspec_command = get(g:, 'localspec_command', 'localspec')
let g:localspec_options = get(g:, 'localspec_options', '')

function! s:complete() abort
  let l:spot = line('.') . ':' . charcol('.')
  let l:name = empty(expand('%')) ? '' : ' --name ' . shellescape(expand('%:p'))
  let l:command = g:localspec_command . ' complete - --quiet --at ' . l:spot . l:name . ' ' . g:localspec_options
  let l:text = join(getline(1, '$'), "\n") . "\n"
  let l:answer = system(l:command, l:text)
  if v:shell_error
    echohl ErrorMsg | echomsg trim(l:answer) | echohl None
    return ''
  endif
  return l:answer
endfunction

" What comes is put in as it is: no abbreviation, no mapping, no indenting.
inoremap <silent> <C-X><C-G> <C-R><C-R>=<SID>paste(<SID>complete())<CR>

function! s:paste(text) abort
  let l:lines = split(a:text, "\n", 1)
  let l:line = getline('.')
  let l:before = strpart(l:line, 0, col('.') - 1)
  let l:behind = strpart(l:line, col('.') - 1)
  let l:lines[0] = l:before . l:lines[0]
  let l:end = [line('.') + len(l:lines) - 1, strlen(l:lines[-1]) + 1]
  let l:lines[-1] .= l:behind
  call setline('.', l:lines[0])
  call append('.', l:lines[1:])
  call cursor(l:end)
  return ''
endfunction

function! s:edit(first, last, instruction) abort
  let l:before = getline(a:first, a:last)
  let l:answer = system(g:localspec_command . ' edit - ' . shellescape(a:instruction) . ' ' . g:localspec_options,
        \ join(l:before, "\n") . "\n")
  if v:shell_error
    echohl ErrorMsg | echomsg trim(split(l:answer, "\n")[-1]) | echohl None
    return
  endif
  let l:lines = split(l:answer, "\n", 1)
  if l:lines[-1] ==# ''
    call remove(l:lines, -1)
  endif
  call append(a:last, l:lines)
  execute a:first . ',' . a:last . 'delete _'
endfunction

command! -range=% -nargs=+ Localspec call s:edit(<line1>, <line2>, <q-args>)
